"""A path in a log or manifest never reaches an object outside its root."""

import pytest

from moorage.core.errors import InvalidInput
from moorage.storage.confine import confine, require_key

S3 = "s3://bucket/lake/t1/"
DISK = "file:///data/managed/t1/"


@pytest.mark.parametrize(
    ("root", "path", "key"),
    [
        (S3, "a", "a"),
        (S3, "a/b/c.parquet", "a/b/c.parquet"),
        (S3, "s3://bucket/lake/t1/a", "a"),
        (S3, "s3://bucket/lake/t1/p=1/a%20b", "p=1/a b"),
        (S3, "p=a%2Fb/c", "p=a/b/c"),
        (S3, "%25", "%"),
        (S3, "%252e%252e/a", "%2e%2e/a"),
        (S3, "...", "..."),
        (S3, "a..b/..c", "a..b/..c"),
        (S3, "date=2026-11-15 10:00/a", "date=2026-11-15 10:00/a"),
        (DISK, "file:///data/managed/t1/_delta_log/0.json", "_delta_log/0.json"),
        (DISK, "file:/data/managed/t1/a", "a"),
        (DISK, "/data/managed/t1/a", "a"),
        (DISK, "a%2520b", "a%20b"),
        ("/data/t1/", "/data/t1/a", "a"),
    ],
)
def test_a_path_inside_the_root_becomes_its_key(root: str, path: str, key: str) -> None:
    assert confine(root, path) == key


@pytest.mark.parametrize(
    ("root", "path"),
    [
        (S3, "s3://bucket/lake/t10/a"),
        (S3, "s3://bucket/lake/t1"),
        (S3, "s3://bucket/lake/t1/"),
        (S3, "s3://bucket/lake/"),
        (S3, "s3://bucket2/lake/t1/a"),
        (S3, "S3://bucket/lake/t1/a"),
        (S3, "s3a://bucket/lake/t1/a"),
        (S3, "s3:/bucket/lake/t1/a"),
        (S3, "https://bucket/lake/t1/a"),
        (S3, "file:/etc/passwd"),
        (S3, "//bucket/lake/t1/a"),
        (S3, "/a"),
        (S3, ""),
        (S3, "."),
        (S3, ".."),
        (S3, "../t10/a"),
        (S3, "a/../../t10/a"),
        (S3, "a/.."),
        (S3, "a//b"),
        (S3, "a/"),
        (S3, "./a"),
        (S3, "%2e%2e/a"),
        (S3, "%2E%2E%2Ft10%2Fa"),
        (S3, "..%2f..%2fa"),
        (S3, "a%2f..%2f..%2fb"),
        (S3, "%2Fetc%2Fpasswd"),
        (S3, "s3%3A%2F%2Fbucket%2Flake%2Ft10%2Fa"),
        (S3, "..\\a"),
        (S3, "a%5C..%5Cb"),
        (S3, "a\x00"),
        (S3, "a%00"),
        (S3, "a%0ab"),
        (S3, "a\x7f"),
        (S3, "s3://bucket/lake/t1/../t10/a"),
        (S3, "s3://bucket/lake/t1/%2e%2e/t10/a"),
        (S3, "s3://bucket/lake/t1//a"),
        (S3, "s3:x"),
        (S3, "/lake/t1/a"),
        (DISK, "file://data/managed/t1/../t1/a"),
        (DISK, "file:///data/managed/t10/a"),
        (DISK, "file:///etc/passwd"),
        (DISK, "FILE:///data/managed/t1/a"),
    ],
)
def test_a_path_outside_the_root_is_refused(root: str, path: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        confine(root, path)
    assert refusal.value.field == "path"
    message = refusal.value.message
    assert repr(path) in message or "has a part" in message or "empty" in message


def test_a_root_without_a_trailing_slash_is_refused() -> None:
    with pytest.raises(ValueError, match="must end with a slash"):
        confine("s3://bucket/lake/t1", "a")


@pytest.mark.parametrize("key", ["a", "a/b", "%2e%2e", "a b", "ü", "a:b"])
def test_a_key_is_not_decoded(key: str) -> None:
    assert require_key(key) == key
