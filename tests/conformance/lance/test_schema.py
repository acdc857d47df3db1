"""Columns, metadata and statistics through Lance's generated client."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from lance_namespace_urllib3_client.models import (
    AlterTableAddColumnsRequest,
    AlterTableAlterColumnsRequest,
    AlterTableBackfillColumnsRequest,
    AlterTableDropColumnsRequest,
    AlterTransactionRequest,
    CreateMaterializedViewRequest,
    CreateTableIndexRequest,
    DescribeTransactionRequest,
    GetTableStatsRequest,
    UpdateFieldMetadataRequest,
)

from tests.conformance.lance.lake import Lake, refused, rows, stream


def add(lake: Lake, id: str, **columns: str) -> int:
    entries = [{"name": name, "expression": expression} for name, expression in columns.items()]
    request = AlterTableAddColumnsRequest.model_validate({"new_columns": entries})
    return int(lake.data.alter_table_add_columns(id, request).version)


def alter(lake: Lake, id: str, **alteration: Any) -> int:
    request = AlterTableAlterColumnsRequest.model_validate({"alterations": [alteration]})
    return int(lake.metadata.alter_table_alter_columns(id, request).version)


def drop(lake: Lake, id: str, *columns: str) -> int:
    return int(lake.metadata.alter_table_drop_columns(id, AlterTableDropColumnsRequest(columns=list(columns))).version)


def test_columns_are_added_altered_and_dropped(lake: Lake) -> None:
    id = lake.table(3)
    assert add(lake, id, double="id * 2", length="character_length(text)") == 2
    assert lake.dataset(id).to_table(columns=["double"])["double"].to_pylist() == [0, 2, 4]
    assert alter(lake, id, path="double", rename="twice") == 3
    assert alter(lake, id, path="twice", data_type={"type": "int32"}) == 4
    assert alter(lake, id, path="twice", nullable=False) == 5
    assert lake.dataset(id).schema.field("twice") == pa.field("twice", pa.int32(), nullable=False)
    assert drop(lake, id, "twice", "length") == 6
    assert lake.dataset(id).schema.names == ["id", "text", "vector"]
    assert "double" in lake.dataset(id, version=2).schema.names


def test_invalid_column_changes_are_refused(lake: Lake) -> None:
    id = lake.table(3)
    with refused(409, 19):
        add(lake, id, text="id")
    with refused(404, 12):
        add(lake, id, other="nope + 1")
    with refused(400, 13):
        add(lake, id, other="id +")
    with refused(400, 13):
        add(lake, id, _rowid="id")
    with refused(404, 12):
        alter(lake, id, path="nope", rename="other")
    with refused(400, 20):
        alter(lake, id, path="id", rename="text")
    with refused(400, 13):
        alter(lake, id, path="id", data_type={"type": "wood"})
    with refused(400, 13):
        alter(lake, id, path="text", data_type={"type": "int64"})
    with refused(400, 13):
        alter(lake, id, path="id")
    with refused(404, 12):
        drop(lake, id, "nope")
    with refused(400, 13):
        drop(lake, id, "id", "text", "vector")
    assert lake.dataset(id).version == 1


@pytest.mark.parametrize("computed", [{"computed": "id + 1"}, {"virtual_column": {}}])
def test_computed_columns_are_not_supported(lake: Lake, computed: dict[str, Any]) -> None:
    body = {"new_columns": [{"name": "x", **computed}]}
    if "virtual_column" in computed:
        udf = {"input_columns": ["id"], "outputs": [], "image": "i", "udf": "u", "udf_name": "n", "udf_version": "1"}
        body["new_columns"][0]["virtual_column"] = udf
    with refused(406, 0):
        lake.data.alter_table_add_columns(lake.table(1), AlterTableAddColumnsRequest.model_validate(body))


def test_metadata_is_set_on_the_schema_and_on_fields(lake: Lake) -> None:
    id = lake.table(3)
    assert lake.metadata.update_table_schema_metadata(id, {"model": "small"}) == {"model": "small"}
    both = {"model": "large", "seen": "yes"}
    assert lake.metadata.update_table_schema_metadata(id, both) == both
    assert lake.dataset(id).schema_metadata == both

    def set_metadata(path: str, metadata: dict[str, str | None], **more: bool) -> Any:
        request = {"updates": [{"path": path, "metadata": metadata, **more}]}
        return lake.metadata.update_field_metadata(id, UpdateFieldMetadataRequest.model_validate(request))

    assert set_metadata("text", {"language": "en", "by": "ann"}).fields == {"text": {"language": "en", "by": "ann"}}
    assert set_metadata("text", {"by": None}).fields == {"text": {"language": "en"}}
    updated = set_metadata("text", {"kind": "title"}, replace=True)
    assert (updated.fields, updated.version) == ({"text": {"kind": "title"}}, 6)
    assert lake.dataset(id).schema.field("text").metadata == {b"kind": b"title"}
    with refused(404, 12):
        set_metadata("nope", {"a": "b"})


def test_statistics_state_the_size_of_a_table(lake: Lake) -> None:
    id = lake.table(10)
    lake.data.insert_into_table(id, stream(rows(2, 10)))
    lake.indexes.create_table_index(id, CreateTableIndexRequest(column="id", index_type="BTREE"))
    stats = lake.metadata.get_table_stats(id, GetTableStatsRequest())
    assert (stats.num_rows, stats.num_indices) == (12, 1)
    assert stats.total_bytes > 12 * 4 * 4
    fragments = stats.fragment_stats
    assert (fragments.num_fragments, fragments.num_small_fragments) == (2, 2)
    assert (fragments.lengths.min, fragments.lengths.max, fragments.lengths.mean) == (2, 10, 6)


def test_a_transaction_that_succeeded_cannot_be_altered(lake: Lake) -> None:
    id = lake.name()
    created = lake.data.create_table(id, stream(rows(1)))
    cancel = AlterTransactionRequest.model_validate({"actions": [{"setStatusAction": {"status": "Canceled"}}]})
    with refused(409, 19):
        lake.transactions.alter_transaction(created.transaction_id, cancel)
    for unknown in ("999999", "1", "first", "-1", "0"):
        with refused(404, 10):
            lake.transactions.describe_transaction(unknown, DescribeTransactionRequest())


def test_unsupported_operations_are_refused_as_such(lake: Lake) -> None:
    id = lake.table(1)
    view = CreateMaterializedViewRequest.model_validate({"kind": "query", "source_query": "{}", "output_schema": ""})
    with refused(406, 0):
        lake.data.create_materialized_view(lake.name(), view)
    with refused(406, 0):
        lake.data.refresh_materialized_view(lake.name())
    with refused(406, 0):
        lake.data.alter_table_backfill_columns(id, AlterTableBackfillColumnsRequest(column="id"))
