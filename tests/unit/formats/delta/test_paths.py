"""Paths in a log: inside the table, or refused."""

import pytest

from moorage.formats.delta.paths import path_check_for, relative_paths

INSIDE = {
    "s3": ("s3://lake/t", ["s3://lake/t/a.parquet", "s3a://lake/t/a.parquet", "s3n://lake/t/x/a.parquet"]),
    "local": ("/data/t/", ["/data/t/a", "file:/data/t/a", "file:///data/t/a", "FILE:/data/t/a"]),
    "local uri": ("file:///data/t", ["/data/t/a", "file:/data/t/a", "file:///data/t/a"]),
    "azure": ("abfss://c@acc.dfs.core.windows.net/t", ["abfs://c@acc.dfs.core.windows.net/t/a"]),
    "a name with a space": ("s3://lake/my t", ["s3://lake/my%20t/a"]),
    "relative": (
        "s3://lake/t",
        ["a.parquet", "ab/part-00000-c000.zstd.parquet", "d=2026-01-01 10%3A00/a", "a%20b", "..a/b", "_delta_log2/a"],
    ),
    "encoded twice": ("s3://lake/t", ["%252e%252e/a", "ts=10%253A00/a"]),
}
OUTSIDE = [
    "../a",
    "a/../../b",
    "%2e%2e/a",
    "a/%2E%2E/%2e%2e/b",
    "..",
    ".",
    "",
    "/",
    "a//b",
    "a/",
    "./a",
    "a\\..\\b",
    "a%5C..%5Cb",
    "a\nb",
    "a%00b",
    "/lake/t/a",
    "s3://other/t/a",
    "s3://lake/t2/a",
    "s3://lake/t",
    "s3://lake/t/",
    "s3://lake/t/../u/a",
    "s3%3A//other/a",
    "file:/etc/passwd",
    "file:///etc/passwd",
    "gs://lake/t/a",
    "hdfs:a",
    "_delta_log/00000000000000000000.json",
    "s3://lake/t/_delta_log/_staged_commits/x.json",
    "%5Fdelta_log/x",
    "_delta_log",
    "_Delta_Log/00000000000000000000.json",
    "%5FDELTA_LOG/x",
]


@pytest.mark.parametrize(
    ("location", "path"), [(location, path) for location, paths in INSIDE.values() for path in paths]
)
def test_a_path_below_the_table_is_inside_however_it_is_spelled(location: str, path: str) -> None:
    assert path_check_for(location)(path)


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_that_leaves_the_table_is_outside(path: str) -> None:
    assert not path_check_for("s3://lake/t")(path)


@pytest.mark.parametrize(
    ("location", "path", "found"),
    [
        ("s3://lake/t", "s3n://lake/t/x/a.parquet", "x/a.parquet"),
        ("s3://lake/t", "S3://lake/t/a", "a"),
        ("abfss://c@acc.dfs.core.windows.net/t", "abfs://c@acc.dfs.core.windows.net/t/a", "a"),
        ("wasbs://c@acc.blob.core.windows.net/t", "wasb://c@acc.blob.core.windows.net/t/a", "a"),
        ("file:///data/my%20t", "file:/data/my%20t/a", "a"),
        ("/data/t/", "FILE:/data/t/a", "a"),
        ("s3://lake/t", "ts=10%253A00/a%20b", "ts=10%3A00/a b"),
        ("s3://lake/t", "s3://other/t/a", "s3://other/t/a"),
    ],
)
def test_every_form_of_a_path_is_the_same_relative_path(location: str, path: str, found: str) -> None:
    assert relative_paths(location)(path) == found
