"""Which files a rewrite takes: the small ones that can be joined, and those with many deleted rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.core.rewrites import RewriteMode
from moorage.formats.delta import bins
from moorage.formats.delta.bins import choose, find_files
from moorage.formats.delta.file_actions import AddFile, DeletionVector
from moorage.formats.delta.replay import to_table

TARGET = 1000


def file(path: str, size: int, *, deleted: int = 0, modified: int = 1, **values: str | None) -> AddFile:
    vector = DeletionVector(storage_type="u", path_or_inline_dv="x" * 20, size_in_bytes=1, cardinality=deleted)
    return AddFile(
        path=path,
        partition_values=values,
        size=size,
        modification_time=modified,
        data_change=True,
        stats=json.dumps({"numRecords": 100}),
        deletion_vector=vector if deleted else None,
    )


def chosen(
    *files: AddFile, mode: RewriteMode = RewriteMode.BIN_PACK, types: dict[str, str] | None = None, **more: Any
) -> tuple[list[str], int]:
    rows, left = choose(to_table(files), mode, TARGET, not_below="compact-j/", types=types or {}, **more)
    return sorted(files[row].path for row in rows), left


def test_small_files_are_joined_and_large_ones_stay() -> None:
    assert chosen(file("a", 10), file("b", 20), file("c", 800)) == (["a", "b"], 0)


def test_a_small_file_alone_stays() -> None:
    assert chosen(file("a", 10), file("c", 800)) == ([], 0)
    assert chosen(file("a", 10, p="1"), file("b", 10, p="2")) == ([], 0)


def test_files_that_do_not_fit_together_stay() -> None:
    assert chosen(file("a", 600), file("b", 700)) == ([], 0)
    assert chosen(file("a", 300), file("b", 400), file("c", 700)) == (["a", "b"], 0)


def test_an_empty_table_has_nothing_to_choose() -> None:
    assert chosen() == ([], 0)


def test_a_file_with_many_deleted_rows_is_rewritten_even_alone() -> None:
    assert chosen(file("a", 900, deleted=6), file("b", 900, deleted=5)) == (["a"], 0)


def test_a_purge_rewrites_every_file_with_deleted_rows() -> None:
    given = (file("a", 900, deleted=1), file("b", 10), file("c", 10))
    assert chosen(*given, mode=RewriteMode.PURGE) == (["a"], 0)


@pytest.mark.parametrize("mode", [RewriteMode.Z_ORDER, RewriteMode.CLUSTER])
def test_ordering_rewrites_every_file(mode: RewriteMode) -> None:
    assert chosen(file("a", 5000), file("b", 10), mode=mode) == (["a", "b"], 0)


def test_results_of_the_same_job_are_not_rewritten_again() -> None:
    given = (file("compact-j/1/a", 10), file("compact-j/1/b", 10), file("compact-k/1/c", 10), file("d", 10))
    assert chosen(*given) == (["compact-k/1/c", "d"], 0)


def test_a_full_shadow_leaves_the_younger_partitions_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bins, "MAX_FILES", 3)
    given = [file(f"{p}{n}", 10, modified=age, p=p) for p, age in (("x", 2), ("y", 1)) for n in range(2)]
    assert chosen(*given) == (["y0", "y1"], 2)
    large = [file(f"a{n}", 10) for n in range(5)]
    assert (len(chosen(*large)[0]), chosen(*large)[1]) == (3, 2)


def test_two_spellings_of_one_value_do_not_share_a_shadow() -> None:
    spellings = ("1970-01-01 00:00:00", "1970-01-01T00:00:00.000000Z")
    given = [file(f"{n}{text}", 10, at=text) for text in spellings for n in range(2)]
    paths, left = chosen(*given, types={"at": "timestamp"})
    assert (len(paths), left) == (2, 2)


def test_files_are_found_by_their_decoded_paths() -> None:
    paths = ["a.parquet", "p=%C3%BC/b.parquet", "file:/t/c.parquet", "/t/d.parquet"]
    table = to_table([file(path, 1) for path in paths])
    found = find_files(table, [f"file:/t/{name}" for name in ("a.parquet", "p=ü/b.parquet", "c.parquet")], "file:/t/")
    assert found["path"].to_pylist() == paths[:3]
    assert find_files(table, {"file:/t/d.parquet"}, "file:/t/")["path"].to_pylist() == paths[3:]


def test_a_path_is_not_taken_for_another_one_in_the_spelling_of_the_log() -> None:
    table = to_table([file("a%25.parquet", 1), file("a%2525.parquet", 2)])
    for wanted, size in (("a%.parquet", 1), ("a%25.parquet", 2)):
        assert find_files(table, {f"file:/t/{wanted}"}, "file:/t/")["size"].to_pylist() == [size]
    both = find_files(table, {"file:/t/a%.parquet", "file:/t/a%25.parquet"}, "file:/t/")
    assert both["size"].to_pylist() == [1, 2]
