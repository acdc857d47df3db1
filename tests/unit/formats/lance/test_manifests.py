"""The location, name and format of manifests."""

from __future__ import annotations

import pytest

from moorage.core.errors import InvalidInput
from moorage.core.securables import MAIN
from moorage.formats.lance.manifests import (
    NamingScheme,
    final_name,
    require_branch,
    require_key,
    require_manifest,
    staged_version_in,
    store_path,
    transaction_of,
    transaction_path,
    version_in,
)
from moorage.testing import lance_writer as write

LOCATION = "file:///data/t/"
NAME = "18446744073709551610.manifest"
STAGED = f"{NAME}-6f1e1d1a-7f0c"


def key_of(path: str, location: str = LOCATION, ref: str = MAIN, version: int = 5) -> str:
    return require_key(location, path, ref=ref, version=version, scheme=None)[0]


@pytest.mark.parametrize(
    ("location", "path", "ref", "key"),
    [
        (LOCATION, f"data/t/_versions/{STAGED}", MAIN, f"_versions/{STAGED}"),
        (LOCATION, f"/data/t/_versions/{STAGED}", MAIN, f"_versions/{STAGED}"),
        (LOCATION, f"file:///data/t/_versions/{STAGED}", MAIN, f"_versions/{STAGED}"),
        (LOCATION, f"data/t/_versions/{NAME}", MAIN, f"_versions/{NAME}"),
        (LOCATION, "data/t/_versions/5.manifest-x", MAIN, "_versions/5.manifest-x"),
        ("file:///data/a b/", f"data/a%20b/_versions/{NAME}", MAIN, f"_versions/{NAME}"),
        ("s3://bucket/data/t/", f"data/t/_versions/{NAME}", MAIN, f"_versions/{NAME}"),
        (LOCATION, f"data/t/tree/dev/_versions/{NAME}", "dev", f"tree/dev/_versions/{NAME}"),
        (LOCATION, f"data/t/tree/a/b/_versions/{NAME}", "a/b", f"tree/a/b/_versions/{NAME}"),
    ],
)
def test_a_manifest_path_of_the_line_is_accepted_in_every_notation(
    location: str, path: str, ref: str, key: str
) -> None:
    assert key_of(path, location, ref) == key


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        STAGED,
        f"_versions/{STAGED}",
        f"data/u/_versions/{STAGED}",
        f"data/t2/_versions/{STAGED}",
        f"xdata/t/_versions/{STAGED}",
        f"//data/t/_versions/{STAGED}",
        f"s3://data/t/_versions/{STAGED}",
        f"data/t/{STAGED}",
        f"data/t/_versions/deep/{STAGED}",
        f"data/t/_versions/../_versions/{STAGED}",
        f"data/t/tree/dev/_versions/{STAGED}",
        "data/t/_versions/",
        "data/t/_versions/18446744073709551611.manifest",
        "data/t/_versions/6.manifest",
        "data/t/_versions/15.manifest",
        "data/t/_versions/5.manifest.bak",
        "data/t/_versions/5.manifest-",
        "data/t/_versions/5.manifest-a/b",
        "data/t/_versions/d5.manifest",
        f"data/t/_versions/{NAME}-x%2F..%2Fy",
    ],
)
def test_any_other_path_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        key_of(path)
    assert refused.value.field == "manifest_path"


def test_the_version_is_parsed_from_names_of_both_schemes() -> None:
    for version in (1, 2, 9, 10, 2**40):
        for scheme in NamingScheme:
            assert version_in(final_name(version, scheme)) == (version, scheme)
    for other in (STAGED, "latest_version_hint.json", "d5.manifest", "x5.manifest", ".manifest"):
        assert version_in(other) is None


def test_store_paths_start_at_the_root_of_the_store() -> None:
    assert store_path(LOCATION, "_versions/x") == "data/t/_versions/x"
    assert store_path("s3://bucket/data/t/", "x") == "data/t/x"


@pytest.mark.parametrize("name", ["..", "a/..", "../a", "/a", "a/", "a//b", "", "a b", "a\\b", ".", "é"])
def test_a_branch_name_cannot_escape_its_table(name: str) -> None:
    with pytest.raises(InvalidInput):
        require_branch(name)


def test_valid_branch_names_are_accepted() -> None:
    assert [require_branch(name) for name in (None, "main", "dev", "feature/x.1", "a_b-c")] == [
        "main",
        "main",
        "dev",
        "feature/x.1",
        "a_b-c",
    ]


def test_a_manifest_is_recognised_by_its_footer() -> None:
    whole = write.manifest(b"something")
    require_manifest(whole, "x")
    require_manifest(write.manifest(b""), "x")
    for wrong in (b"", b"LANC", whole[:-1], whole[1:], whole + b"LANC", b"x" * 100, whole[:-4] + b"LANX", whole[-16:]):
        with pytest.raises(InvalidInput):
            require_manifest(wrong, "x")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (f"{NAME}-6f1e1d1a-7f0c-4bd2-8ae5-01b2c3d4e5f6", 5),
        ("5.manifest-6f1e1d1a-7f0c-4bd2-8ae5-01b2c3d4e5f6", 5),
        (NAME, None),
        (STAGED, None),
        (f"{NAME}-{'0' * 32}", None),
        ("latest_version_hint.json", None),
    ],
)
def test_a_manifest_that_a_lance_client_staged_is_recognised_by_its_name(name: str, version: int | None) -> None:
    assert staged_version_in(name) == version


@pytest.mark.parametrize(
    ("message", "transaction"),
    [
        (b"\x18\x05" + write.transaction_field("4-a.txn"), "4-a.txn"),
        (b"\x12\x03abc\x59" + b"8" * 8 + b"\x5d" + b"4" * 4 + write.transaction_field("4-a.txn"), "4-a.txn"),
        (b"\x80\x01\x05", None),
        (b"", None),
        (write.transaction_field("../4-a.txn"), None),
        (b"\x0b" + write.transaction_field("4-a.txn"), None),
        (b"\x62\xff", None),
    ],
)
def test_the_transaction_file_is_read_from_the_manifest(message: bytes, transaction: str | None) -> None:
    assert transaction_of(write.manifest(message)) == transaction


def test_transaction_files_are_beside_the_manifests_of_their_line() -> None:
    assert transaction_path(MAIN, "4-a.txn") == "_transactions/4-a.txn"
    assert transaction_path("a/b", "4-a.txn") == "tree/a/b/_transactions/4-a.txn"
