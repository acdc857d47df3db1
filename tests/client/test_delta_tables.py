"""Managed Delta tables that the Python client creates and changes, without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.client import Client
from moorage.client.delta import DeltaTables, TableRefused
from moorage.client.delta.refusal import missing_features
from moorage.testing.server import ServerProcess

ID: dict[str, Any] = {"name": "id", "type": "long", "nullable": True, "metadata": {}}
ARRAY = {"type": "array", "elementType": "timestamp_ntz", "containsNull": True}
AT: dict[str, Any] = {"name": "at", "type": ARRAY, "nullable": True, "metadata": {}}
NTZ = "timestampNtz"


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


@pytest.fixture
def tables(tmp_path: Path) -> Iterator[DeltaTables]:
    with ServerProcess(tmp_path / "data") as server:
        with Client(server.url) as client:
            client.catalogs.create("lake")
            client.namespaces.create("lake", ["sea"])
        with DeltaTables(server.url) as tables:
            yield tables


def test_a_table_has_the_features_that_its_columns_need(tables: DeltaTables) -> None:
    tables.create(tables.stage("lake.sea.plain"), struct(ID))
    tables.create(tables.stage("lake.sea.timed"), struct(ID, AT))
    plain, timed = tables.state("lake.sea.plain").protocol, tables.state("lake.sea.timed").protocol
    assert NTZ not in plain.reader_features + plain.writer_features
    assert NTZ in timed.reader_features
    assert NTZ in timed.writer_features


def test_a_new_column_adds_its_feature_and_keeps_the_identity_of_the_table(tables: DeltaTables) -> None:
    tables.create(tables.stage("lake.sea.t"), struct(ID), comment="of boats")
    before = tables.state("lake.sea.t")
    tables.commit("lake.sea.t", before.table_id, before.schema_string, [], new_schema=struct(ID, AT))
    after = tables.state("lake.sea.t")
    assert [field["name"] for field in after.fields] == ["id", "at"]
    assert NTZ in after.protocol.reader_features
    assert NTZ in after.protocol.writer_features
    assert after.metadata == before.metadata
    assert (before.metadata["description"], before.metadata["id"] != before.table_id) == ("of boats", True)


def test_a_column_that_plain_files_cannot_have_is_refused() -> None:
    with pytest.raises(TableRefused, match="needs the feature 'variantType'"):
        missing_features(struct(ID, {"name": "v", "type": "variant", "nullable": True, "metadata": {}}), [])
