"""The lines of Delta Sharing: valid JSON, one object per line, the same ids and fields in every response."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.file_actions import AddFile, ChangeFile, DeletionVector, RemoveFile
from moorage.formats.delta.replay import part_of, to_table
from moorage.formats.sharing.capabilities import FORMATS, ResponseFormat
from moorage.formats.sharing.change_lines import change_line
from moorage.formats.sharing.file_lines import (
    Stated,
    beside_vectors,
    blocks_of,
    join_lines,
    line_parts,
    to_tails,
    to_urls,
)
from moorage.formats.sharing.lines import to_line
from moorage.formats.sharing.pages import files_for_rows, page_of
from moorage.formats.sharing.protocols import needed_features, shared_protocol

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
VECTORS = st.builds(
    DeletionVector,
    storage_type=st.sampled_from(["u", "i", "p"]),
    path_or_inline_dv=st.sampled_from(["ab^-aqEH.-t@S}K{vb[*k^", "^-aqEH.-t@S}K{vb[*k^"]),
    offset=st.none() | st.integers(0, 99),
    size_in_bytes=st.integers(0, 99),
    cardinality=st.integers(0, 99),
)
ADDS = st.builds(
    AddFile,
    path=TEXTS.filter(lambda text: "\0" not in text),
    partition_values=st.dictionaries(TEXTS, st.none() | TEXTS, max_size=2),
    size=st.integers(0, 2**40),
    modification_time=st.integers(0, 2**40),
    data_change=st.booleans(),
    stats=st.none() | TEXTS,
    tags=st.none() | st.dictionaries(TEXTS | st.just("pathOrInlineDv"), TEXTS | st.just("\0"), max_size=2),
    deletion_vector=st.none() | VECTORS,
    base_row_id=st.none() | st.integers(0, 99),
)


def split(data: bytes) -> list[dict[str, Any]]:
    """The lines as the Python client splits them: also at separators that JSON allows in a string."""
    return [json.loads(line) for line in data.decode().splitlines()]


def lines_of(files: pa.Table, chosen: ResponseFormat, stated: Stated) -> list[dict[str, Any]]:
    tails = to_tails(files, chosen, chosen)
    urls = [f"https://x/{number}".encode() for number in range(tails.num_rows)]
    vectors = beside_vectors(tails, [b"https://vector"] * len(tails["vector_path"].drop_null()))
    return split(join_lines(line_parts(chosen, stated), to_urls(urls), tails, vectors))


@settings(deadline=None)
@given(st.lists(ADDS, max_size=4))
def test_a_file_is_told_as_the_log_has_it(adds: list[AddFile]) -> None:
    stated = Stated(expires_at_ms=5, version=3, timestamp_ms=4)
    lines = lines_of(to_table(adds), "delta", stated)
    assert len(lines) == len(adds)
    for number, (line, add) in enumerate(zip(lines, adds, strict=True)):
        found = line["file"]
        assert (found["expirationTimestamp"], found["version"], found["timestamp"]) == (5, 3, 4)
        action = found["deltaSingleAction"]["add"]
        assert action["path"] == f"https://x/{number}"
        assert (action["partitionValues"], action["size"]) == (add.partition_values, add.size)
        assert (action.get("stats"), action.get("tags")) == (add.stats, add.tags)
        if add.deletion_vector is None:
            assert "deletionVector" not in action
            continue
        vector, is_inline = action["deletionVector"], add.deletion_vector.storage_type == "i"
        assert vector["pathOrInlineDv"] == (add.deletion_vector.path_or_inline_dv if is_inline else "https://vector")
        assert vector["storageType"] == ("i" if is_inline else "p")
        assert found["deletionVectorFileId"]


@settings(deadline=None)
@given(st.lists(ADDS, max_size=4))
def test_a_file_in_parquet_format_has_the_four_required_fields(adds: list[AddFile]) -> None:
    lines = lines_of(to_table(adds), "parquet", Stated(expires_at_ms=5))
    for line, add in zip(lines, adds, strict=True):
        file = line["file"]
        assert set(file) - {"stats", "expirationTimestamp"} == {"url", "id", "partitionValues", "size"}
        assert (file["partitionValues"], file.get("stats")) == (add.partition_values, add.stats)


@settings(deadline=None)
@given(TEXTS)
def test_no_line_is_split_by_its_content(text: str) -> None:
    line = to_line({"x": text + "\u0085\u2028\u2029"})
    assert split(line) == [{"x": text + "\u0085\u2028\u2029"}]


@pytest.mark.parametrize("chosen", FORMATS)
def test_a_removed_file_has_a_size_even_if_the_log_has_none(chosen: ResponseFormat) -> None:
    stated = Stated(expires_at_ms=5, version=1, timestamp_ms=2)
    (line,) = split(change_line(RemoveFile(path="a"), chosen, chosen, stated, url="u"))
    found = line["remove"] if chosen == "parquet" else line["file"]["deltaSingleAction"]["remove"]
    assert (found["size"], found["partitionValues"]) == (0, {})


def test_a_change_file_has_a_name_of_its_own_in_each_format() -> None:
    stated = Stated(expires_at_ms=5, version=1, timestamp_ms=2)
    change = ChangeFile(path="a", partition_values={}, size=1)
    (in_parquet,) = split(change_line(change, "parquet", "parquet", stated, url="u"))
    (in_delta,) = split(change_line(change, "delta", "delta", stated, url="u"))
    assert list(in_parquet) == ["cdf"]
    assert in_delta["file"]["deltaSingleAction"]["cdc"]["dataChange"] is False


def test_the_file_of_a_vector_is_named_as_the_protocol_says() -> None:
    def vector(kind: Any, text: str) -> DeletionVector:
        return DeletionVector(storage_type=kind, path_or_inline_dv=text, size_in_bytes=1, cardinality=1)

    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_path(vector("u", "ab^-aqEH.-t@S}K{vb[*k^")) == f"ab/{name}"
    assert vector_path(vector("u", "^-aqEH.-t@S}K{vb[*k^")) == name
    assert vector_path(vector("p", "s3://b/x")) == "s3://b/x"
    assert vector_path(vector("i", "wi5b=")) is None


# --- features --------------------------------------------------------------------------------------


def protocol(*readers: str, writers: tuple[str, ...] = ()) -> Protocol:
    return Protocol(
        min_reader_version=3, min_writer_version=7, reader_features=readers, writer_features=(*readers, *writers)
    )


METADATA = Metadata(id="1", schema_string="{}")
MAPPED = Metadata(id="1", schema_string="{}", configuration={"delta.columnMapping.mode": "id"})


def test_only_features_that_concern_the_files_are_needed() -> None:
    managed = protocol("catalogManaged", "vacuumProtocolCheck", "v2Checkpoint", "deletionVectors", "columnMapping")
    assert needed_features(managed, METADATA, has_vectors=False) == frozenset()
    assert needed_features(managed, METADATA, has_vectors=True) == {"deletionVectors"}
    assert needed_features(managed, MAPPED, has_vectors=False) == {"columnMapping"}
    assert needed_features(protocol("typeWidening"), METADATA, has_vectors=False) == {"typeWidening"}
    legacy = Protocol(min_reader_version=2, min_writer_version=5)
    assert needed_features(legacy, MAPPED, has_vectors=False) == {"columnMapping"}


def test_a_protocol_without_reader_features_needs_no_version_for_them() -> None:
    managed = protocol("catalogManaged", "deletionVectors", writers=("inCommitTimestamp", "appendOnly"))
    plain = shared_protocol(managed, frozenset())
    assert (plain.min_reader_version, plain.reader_features, plain.writer_features) == (1, (), ("appendOnly",))
    advanced = shared_protocol(managed, frozenset({"deletionVectors"}))
    assert (advanced.min_reader_version, advanced.reader_features) == (3, ("deletionVectors",))


# --- pages -----------------------------------------------------------------------------------------


def files(count: int) -> pa.Table:
    return to_table(
        AddFile(path=f"{number:03}", partition_values={}, size=1, modification_time=1, data_change=True, stats=stats)
        for number in range(count)
        for stats in [None if number % 3 == 0 else '{"numRecords":10}']
    )


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_pages_do_not_depend_on_the_order_of_the_files(size: int) -> None:
    table = files(20)
    reverse = table.take(list(range(19, -1, -1)))
    for parts in ([part_of(table)], [part_of(reverse)], [part_of(table.slice(9)), part_of(table.slice(0, 9))]):
        found: list[str] = []
        after = None
        while True:
            page = page_of(parts, after=after, size=size, rows=None)
            assert page.files.num_rows <= size
            found += page.files["path"].to_pylist()
            after = page.last
            if after is None:
                break
        assert found == [f"{number:03}" for number in range(20)]


def test_files_without_a_row_count_do_not_count() -> None:
    assert [files_for_rows(files(9), rows) for rows in (0, 1, 10, 11, 20, 21, 1000)] == [0, 2, 2, 3, 3, 5, 9]


def test_blocks_without_a_selected_file_are_left_out() -> None:
    part = part_of(files(10))
    assert [block.selected for block in blocks_of(part, 4)] == [4, 4, 2]
    some = type(part)(part.slab, pa.array([False] * 5 + [True] * 5), 5)
    assert [(block.start, block.selected) for block in blocks_of(some, 4)] == [(4, 3), (8, 2)]
