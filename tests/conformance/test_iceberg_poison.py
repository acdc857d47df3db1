"""Java reads every table that a commit, a creation or a registration with wrong values can produce."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from moorage.core.errors import MoorageError
from moorage.formats.iceberg.changes import TableUpdate, to_documents
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import parse_table, updated
from tests.unit.formats.iceberg.poison import ALL, WIDER, changed, paths_of
from tests.unit.formats.iceberg.tables import BY_CITY, BY_ID, NOW_MS, table, with_snapshots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

VALUES: list[Any] = [
    None,
    -1,
    1,
    2**31,
    2**63 - 1,
    "",
    "x",
    "1.0",
    "unknown",
    "void",
    [],
    [None],
    {},
    {"a": 1},
    True,
    1.5,
]

_decode = msgspec.json.Decoder(list[TableUpdate]).decode


def tables() -> Iterator[Document]:
    """The tables after every commit with one wrong value that our checks accept."""
    base = with_snapshots(2, 3)
    for updates in ALL:
        for path in paths_of(updates):
            for value in VALUES:
                try:
                    documents = to_documents(_decode(msgspec.json.encode(changed(updates, path, value))))
                    yield updated(base, documents, now_ms=NOW_MS + 10)
                except (MoorageError, msgspec.ValidationError):
                    continue


def registered() -> Iterator[Document]:
    whole = with_snapshots(2, 3)
    for updates in ALL:
        whole = updated(whole, updates, now_ms=NOW_MS + 10)
    for path in paths_of(whole):
        for value in VALUES:
            try:
                yield parse_table(changed(whole, path, value))
            except MoorageError:
                continue


def created() -> Iterator[Document]:
    given = {"schema": WIDER, "spec": BY_CITY, "order": BY_ID}
    for path in paths_of(given):
        for value in VALUES if len(path) > 1 else ():
            try:
                yield table(3, **changed(given, path, value))
            except MoorageError:
                continue


def test_java_reads_every_table_that_is_accepted(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    parse = jvm.org.apache.iceberg.TableMetadataParser.fromJson
    seen = set[str]()
    for doc in (*tables(), *registered(), *created()):
        text = json.dumps(doc)
        if text not in seen:
            seen.add(text)
            assert parse("file:///lake/t/metadata/00001.metadata.json", text).formatVersion() == 3
    assert len(seen) > 300
