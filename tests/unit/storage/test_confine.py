"""Whatever a log or manifest names, nothing outside of its root is reached."""

import pytest

from moorage.core.errors import InvalidInput
from moorage.storage.confine import confine

ROOT = "file:///lake/t1/"


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("a%20b/part%3D1.parquet", "a b/part=1.parquet"),
        ("file:///lake/t1/x", "x"),
        ("file:/lake/t1/x", "x"),
        ("/lake/t1/x", "x"),
        ("a%252Fb", "a%2Fb"),
    ],
)
def test_a_path_inside_the_root_is_the_way_down_from_it(path: str, key: str) -> None:
    assert confine(ROOT, path) == key


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../t2/x",
        "a/../../x",
        "a%2F..%2F..%2Fx",
        "a//b",
        "./x",
        "/etc/passwd",
        "file:/etc/passwd",
        "file:///lake/t10/x",
        "file:///lake/t1",
        "s3://bucket/x",
        "s3:x",
        "a\\b",
        "a\x00b",
        "a%0Ab",
    ],
)
def test_a_path_that_leaves_the_root_is_refused(path: str) -> None:
    with pytest.raises(InvalidInput):
        confine(ROOT, path)


def test_an_object_store_has_its_own_spelling() -> None:
    assert confine("s3://bucket/t1/", "s3://bucket/t1/a/b") == "a/b"
    with pytest.raises(InvalidInput):
        confine("s3://bucket/t1/", "/t1/a/b")
