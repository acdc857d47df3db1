"""`moorage ingest` of files as other programs write them: no file blocks the others, and each row has one place."""

from __future__ import annotations

import gzip
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyarrow import parquet

from moorage.pipeline.ingest import IngestRefused, Request, Summary, ingest
from moorage.pipeline.ingest.crowded_lines import REASON
from moorage.testing.server import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.xdist_group("spark-pipeline")


class Taken:
    """A folder with these files, taken into a Delta table."""

    def __init__(self, spark: SparkSession, server: ServerProcess, schema: str, folder: Path) -> None:
        self._spark, self._url, self._folder = spark, server.url, folder
        self.table = f"{schema}.odd"

    def of(self, files: Mapping[str, bytes], columns: str | None = None) -> Summary:
        for name, data in files.items():
            (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_bytes(data)
        return ingest(self._spark, Request(source=str(self._folder), table=self.table, url=self._url, schema=columns))

    def rows(self) -> list[Row]:
        return sorted(self._spark.read.format("moorage").load(self.table).collect(), key=str)

    def rejected(self) -> dict[tuple[str, int | None], str]:
        """File and line → the reason."""
        found = self._spark.read.format("moorage").load(f"{self.table}_rejected").collect()
        return {(os.path.relpath(row.file, self._folder), row.line): row.reason for row in found}


@pytest.fixture
def taken(spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path) -> Taken:
    return Taken(spark, server, schema, tmp_path / "in")


def test_csv_is_read_by_rfc_4180(taken: Taken) -> None:
    """Spark alone takes two quotes for two characters, and a line break for the end of a record."""
    files = {
        "a.csv": b'id,name\r\n1,"an ""open"" catalog"\r\n2,"two\r\nlines"\r\n3,"end\\"\r\nx,"bad\r\nlines"\r\n4,\r\n',
        "b.csv": b'\xef\xbb\xbf"na""me",id\nx,5\n',
        "c.csv.gz": gzip.compress(b'id,name\n6,"two\nlines"\n'),
        "d.tsv": b"id\tname\n7,\ta b\n8\tc\n",
        "e.csv": b"\r\n\r\nid,name\r\n9,d\r\n",
    }
    found = taken.of(files, "id long, name string")
    assert (found.rows, found.unknown_fields) == (8, ['na"me'])
    assert [tuple(row) for row in taken.rows()] == [
        (1, 'an "open" catalog'),
        (2, "two\nlines"),
        (3, "end\\"),
        (4, None),
        (5, None),
        (6, "two\nlines"),
        (8, "c"),
        (9, "d"),
    ]
    assert set(taken.rejected()) == {("a.csv", 6), ("d.tsv", 2)}


def test_a_csv_file_whose_header_fits_no_table_is_set_aside(taken: Taken) -> None:
    files = {"a.csv": b"id,name\n1,a\n", "twice.csv": b"id,name,NAME\n2,b,c\n", "headless.csv": b"3,d\n4,e\n"}
    assert taken.of(files, "id long, name string").rows == 1
    reasons = taken.rejected()
    assert "the column 'NAME' is in it twice" in reasons["twice.csv", None]
    assert "its header names no column of the table: 3, d" in reasons["headless.csv", None]


def test_a_column_without_a_name_gets_one(taken: Taken) -> None:
    assert taken.of({"a.csv": b",b\n1,2\n"}).unknown_fields == []
    assert [row.asDict() for row in taken.rows()] == [{"_c0": 1, "b": 2}]


def test_bytes_that_are_no_utf_8_are_set_aside(taken: Taken) -> None:
    assert taken.of({"a.json": b'{"name":"caf\xe9"}\n{"name":"b"}\n'}, "name string").rows == 1
    assert set(taken.rejected()) == {("a.json", 1)}
    taken.table += "_text"
    (taken._folder / "a.json").unlink()
    assert taken.of({"a.log": b"first\ncaf\xe9\n"}).rows == 1
    assert taken.rejected() == {("a.log", 2): "the line is not encoded in UTF-8"}


def test_csv_records_that_are_no_utf_8_are_set_aside(taken: Taken) -> None:
    """Spark alone stores another character in place of each odd byte. A file may have that character as its own."""
    files = {
        "a.csv": "id,name\n1,caf\ufffd\n".encode(),
        "b.csv": b"id,name\n2,plain\n3,caf\xe9\n",
        "c.csv.gz": gzip.compress(b"name,id\ncaf\xe9,4\n\xc3\xa9,5\n"),
    }
    found = taken.of(files, "id long, name string")
    assert (found.rows, found.rejected) == (3, 2)
    assert [tuple(row) for row in taken.rows()] == [(1, "caf\ufffd"), (2, "plain"), (5, "é")]
    reason = "the line is not encoded in UTF-8"
    assert taken.rejected() == {("b.csv", 3): reason, ("c.csv.gz", 2): reason}


def test_parquet_files_of_several_types_are_fitted_to_the_columns(taken: Taken, tmp_path: Path) -> None:
    """A struct by the names of its fields. Spark alone refuses such files, and casts structs by position."""
    files = {
        "a.parquet": {"id": pa.array([1], pa.int32()), "at": [{"x": 1, "y": "a"}], "path": [[{"x": 1}]]},
        "b.parquet": {"id": pa.array([2, 3]), "at": [{"y": "b", "x": "2"}, {"y": "c", "x": "?"}]},
        "c.parquet": {"ID": [4.0, 4.5], "path": [[{"z": 5, "x": 6}], None]},
        "d.parquet": {"id": [{"no": 1}], "at": [None]},
        "e é.parquet": {"id": pa.array([], pa.int64())},
    }
    (tmp_path / "in").mkdir()
    for name, columns in files.items():
        parquet.write_table(pa.table(columns), tmp_path / "in" / name)
    broken = {"f é.parquet": b"PAR1 PAR1", "g.parquet": b""}
    found = taken.of(broken, "id long, at struct<x:long,y:string>, path array<struct<x:long>>")
    assert (found.rows, found.rejected, found.unknown_fields) == (3, 3, ["path.z"])
    assert [row.asDict(recursive=True) for row in taken.rows()] == [
        {"id": 1, "at": {"x": 1, "y": "a"}, "path": [{"x": 1}]},
        {"id": 2, "at": {"x": 2, "y": "b"}, "path": None},
        {"id": 4, "at": None, "path": [{"x": 6}]},
    ]
    rejected = taken.rejected()
    assert {name for name, _ in rejected} == {"b.parquet", "c.parquet", "d.parquet", *broken}
    for name in broken:
        assert "not a Parquet file" in rejected[name, None]  # Spark or Arrow reads it first, each in its words


def test_parquet_files_as_pandas_writes_them_are_taken(taken: Taken, tmp_path: Path) -> None:
    """Spark alone refuses timestamps in nanoseconds and times, without the name of the file."""
    moment, early = datetime(2026, 11, 16, 12, 30, 5, 123456, tzinfo=UTC), datetime(1969, 12, 31, 23, 0, tzinfo=UTC)
    local = [each.replace(tzinfo=None) for each in (moment, early)]
    files = {
        "a.parquet": {
            "id": [1, 2],
            "at": pa.array([moment, early], pa.timestamp("ns", "UTC")),
            "local": pa.array(local, pa.timestamp("ns")),
        },
        "b.parquet": {"id": [3], "at": pa.array([moment], pa.timestamp("us", "UTC"))},
        "c.parquet": {"id": [4], "time": pa.array([1], pa.time64("us"))},
        "d.parquet": {"id": [5], "in": pa.array([{"at": moment}], pa.struct([("at", pa.timestamp("ns"))]))},
    }
    (tmp_path / "in").mkdir()
    for name, columns in files.items():
        parquet.write_table(pa.table(columns), tmp_path / "in" / name)
    assert taken.of({}).rows == 3
    found = [(row.id, row.at and row.at.astimezone(UTC), row.local) for row in taken.rows()]
    assert found == [(1, moment, local[0]), (2, early, local[1]), (3, moment, None)]
    reasons = taken.rejected()
    assert "The data type TIME is not supported" in reasons["c.parquet", None]
    assert "'in' has nanoseconds within a struct" in reasons["d.parquet", None]


def test_names_with_characters_of_patterns_are_names(taken: Taken) -> None:
    names = ["a[1].json", "a1.json", "{b,c}.json", "b.json", "d*.json", "da.json", "e?#%20+é.json", "f\\g.json"]
    files = {f"day=1/{name}": b'{"id":%d}\n' % at for at, name in enumerate(names)}
    files["x y.json"] = b'{"id":8}\n{"id":"x"}\n'
    found = taken.of(files, "id long")
    assert (found.rows, found.unreadable) == (9, [])
    assert [row.id for row in taken.rows()] == list(range(9))
    assert set(taken.rejected()) == {("x y.json", 2)}


def test_the_newest_file_wins_whatever_its_name(
    spark: SparkSession, server: ServerProcess, schema: str, tmp_path: Path
) -> None:
    for at, name in enumerate(("zz é.json", "day=1/b.json", "(a).json")):
        file = tmp_path / "in" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{{"id": 1, "n": {at}}}\n')
        os.utime(file, (1_000 + at, 1_000 + at))
    table = f"{schema}.newest"
    ingest(spark, Request(source=str(tmp_path / "in"), table=table, url=server.url, mode="upsert", key=("id",)))
    assert [(row.id, row.n) for row in spark.read.format("moorage").load(table).collect()] == [(1, 2)]


def test_what_cannot_become_columns_is_refused_with_the_remedy(taken: Taken) -> None:
    with pytest.raises(IngestRefused, match="one record on each line"):
        taken.of({"a.json": b"[\n]\n"})
    with pytest.raises(IngestRefused, match=r"differ only in case.*--schema"):
        taken.of({"a.json": b'{"id": 1, "ID": 2}\n'})
    assert taken.of({"a.json": b'{"a`b": 1, "c.d": 2}\n'}).rows == 1
    assert [row.asDict() for row in taken.rows()] == [{"a`b": 1, "c.d": 2}]


def test_records_behind_the_first_one_of_a_line_are_set_aside(taken: Taken) -> None:
    """As some services write them. Spark alone takes the first record of a line, and ignores the others."""
    files = {"a.json": b'{"id":1}{"id":2}\n{"id":3}\n', "b.json": b'{"id":4,"note":"}{"}\n'}
    found = taken.of(files, "id long, note string")
    assert (found.rows, found.rejected) == (3, 1)
    assert [row.id for row in taken.rows()] == [1, 3, 4]
    assert taken.rejected() == {("a.json", 1): REASON}
