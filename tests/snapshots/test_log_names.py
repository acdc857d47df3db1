"""The version of a file in the log folder, by its name."""

from __future__ import annotations

import pytest

from moorage.snapshots.log_files import file_version, parse_checkpoint_hint

SEVEN, NINE = f"{7:020}", f"{9:020}"


@pytest.mark.parametrize(
    "name",
    [
        f"{NINE}.json",
        f"{NINE}.crc",
        f"{NINE}.checkpoint.parquet",
        f"{NINE}.checkpoint.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
        f"{NINE}.checkpoint.0000000001.0000000002.parquet",
        f"{SEVEN}.{NINE}.compacted.json",
    ],
)
def test_the_version_of_a_file_is_the_newest_in_its_name(name: str) -> None:
    assert file_version(f"_delta_log/{name}") == 9


@pytest.mark.parametrize(
    "name",
    [
        "_last_checkpoint",
        f"_staged_commits/{NINE}.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json",
        f"_sidecars/{NINE}.json",
        f".{NINE}.json.tmp",
        f"{NINE}.checkpoint.d/part.parquet",
        f"{NINE}0.json",
        "9.json",
    ],
)
def test_other_names_have_no_version(name: str) -> None:
    assert file_version(f"_delta_log/{name}") is None


def test_a_checkpoint_hint_has_a_version_unless_it_is_broken(subtests: pytest.Subtests) -> None:
    for data, version in ((b'{"version":9,"size":1}', 9), (b'{"version":', None), (b"[]", None), (b"", None)):
        with subtests.test(data=data):
            assert parse_checkpoint_hint(data) == version
