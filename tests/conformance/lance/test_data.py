"""Rows through Lance's generated client: written, merged, changed, deleted, counted, restored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from lance_namespace_urllib3_client.models import (
    BatchDeleteTableVersionsRequest,
    CountTableRowsRequest,
    DeclareTableRequest,
    DeleteFromTableRequest,
    DescribeTableRequest,
    DescribeTransactionRequest,
    ListTableVersionsResponse,
    RestoreTableRequest,
    UpdateTableRequest,
    VersionRange,
)

from tests.conformance.lance.lake import Lake, refused, rows, stream


def versions(lake: Lake, id: str) -> list[int]:
    answer: ListTableVersionsResponse = lake.metadata.list_table_versions(id)
    return [each.version for each in answer.versions]


def count(lake: Lake, id: str, **given: object) -> int:
    return int(lake.data.count_table_rows(id, CountTableRowsRequest.model_validate(given)))


def test_a_table_is_created_from_rows_in_one_transaction(lake: Lake) -> None:
    id = lake.name()
    created = lake.data.create_table(id, stream(rows(10)), properties='{"owner": "ann"}')
    assert (created.version, created.properties) == (1, {"owner": "ann"})
    assert lake.ids(id) == list(range(10))
    assert lake.metadata.describe_table(id, DescribeTableRequest()).location == created.location
    transaction = lake.transactions.describe_transaction(created.transaction_id, DescribeTransactionRequest())
    assert transaction.status == "SUCCEEDED"


def test_the_mode_decides_what_happens_to_an_existing_table(lake: Lake) -> None:
    id = lake.table(10)
    with refused(409, 5):
        lake.data.create_table(id, stream(rows(3)))
    existing = lake.data.create_table(id, stream(rows(3)), mode="ExistOk")
    assert (existing.version, lake.ids(id)) == (1, list(range(10)))
    before = lake.metadata.describe_table(id, DescribeTableRequest()).location
    created = lake.data.create_table(id, stream(pa.table({"other": [1, 2]})), mode="overwrite")
    assert created.version == 1
    assert created.location != before
    assert lake.dataset(id).to_table().to_pydict() == {"other": [1, 2]}


def test_a_table_whose_versions_were_all_deleted_accepts_no_rows_over_http(lake: Lake) -> None:
    id = lake.table(2)
    everything = BatchDeleteTableVersionsRequest(ranges=[VersionRange(start_version=0, end_version=-1)])
    assert lake.metadata.batch_delete_table_versions(id, everything).deleted_count == 1
    with refused(409, 19):
        lake.data.insert_into_table(id, stream(rows(1)))


def test_of_many_clients_that_create_one_table_one_wins(lake: Lake) -> None:
    id = lake.name()

    def create(size: int) -> int | None:
        try:
            lake.data.create_table(id, stream(rows(size)))
        except Exception:  # noqa: BLE001 - any refusal; the assertions below check the rest
            return None
        return size

    with ThreadPoolExecutor(4) as pool:
        won = [size for size in pool.map(create, range(1, 7)) if size is not None]
    assert len(won) == 1
    assert count(lake, id) == won[0]


def test_creating_a_table_requires_its_namespace_and_valid_arrow(lake: Lake) -> None:
    with refused(404, 1):
        lake.data.create_table("lake$nowhere$t", stream(rows(1)))
    for body in (b"no arrow", stream(rows(1))[:100]):
        id = lake.name()
        with refused(400, 13):
            lake.data.create_table(id, body)
        with refused(404, 4):
            lake.metadata.describe_table(id, DescribeTableRequest())
    with refused(400, 13):
        lake.data.create_table(lake.name(), stream(rows(1)), mode="sometimes")
    with refused(400, 13):
        lake.data.create_table(lake.name(), stream(rows(1)), properties="[1]")


def test_rows_are_appended_or_replace_all_others(lake: Lake) -> None:
    id = lake.table(3)
    added = lake.data.insert_into_table(id, stream(rows(2, 3)))
    assert (added.version, added.num_inserted_rows) == (2, 2)
    assert lake.ids(id) == [0, 1, 2, 3, 4]
    assert lake.ids(id, version=1) == [0, 1, 2]
    lake.data.insert_into_table(id, stream(rows(1, 9)), mode="Overwrite")
    assert lake.ids(id) == [9]
    assert versions(lake, id) == [1, 2, 3]


def test_an_insert_creates_the_first_version_of_a_declared_table(lake: Lake) -> None:
    id = lake.name()
    lake.metadata.declare_table(id, DeclareTableRequest())
    with refused(404, 11):
        lake.data.count_table_rows(id, CountTableRowsRequest())
    assert lake.data.insert_into_table(id, stream(rows(4))).version == 1
    assert count(lake, id) == 4


def test_rows_that_do_not_fit_the_table_are_refused(lake: Lake) -> None:
    id = lake.table(3)
    for wrong in (pa.table({"nope": [1]}), pa.table({"id": ["text"]})):
        with refused(400, 20):
            lake.data.insert_into_table(id, stream(wrong))
    with refused(404, 22):
        lake.data.insert_into_table(id, stream(rows(1)), branch="nope")
    with refused(404, 4):
        lake.data.insert_into_table(lake.name(), stream(rows(1)))
    assert versions(lake, id) == [1]


def test_concurrent_writers_lose_no_row(lake: Lake) -> None:
    id = lake.table(1)
    dataset = lake.dataset(id)
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(lake.data.insert_into_table, id, stream(rows(1, n))) for n in range(1, 8)]
        dataset.insert(rows(1, 8))
        seen = sorted(each.result().version for each in done)
    assert lake.ids(id) == list(range(9))
    assert len(set(seen)) == 7
    assert versions(lake, id) == list(range(1, 10))


def test_merged_rows_update_insert_and_delete(lake: Lake) -> None:
    id = lake.table(5)
    changed = rows(4, 3).set_column(1, "text", pa.array(["new"] * 4))
    done = lake.data.merge_insert_into_table(
        id, ["id"], stream(changed), when_matched_update_all=True, when_not_matched_insert_all=True
    )
    assert (done.num_updated_rows, done.num_inserted_rows, done.num_deleted_rows, done.version) == (2, 2, 0, 2)
    assert lake.dataset(id).count_rows("text = 'new'") == 4
    done = lake.data.merge_insert_into_table(
        id,
        ["id"],
        stream(rows(1, 3)),
        when_matched_update_all_filt="source.id > 100",
        when_not_matched_by_source_delete_filt="id > 4",
        timeout="10s",
    )
    assert (done.num_updated_rows, done.num_deleted_rows) == (0, 2)
    assert lake.ids(id) == [0, 1, 2, 3, 4]


def test_a_merge_without_valid_columns_actions_and_timeout_is_refused(lake: Lake) -> None:
    id = lake.table(2)
    with refused(404, 12):
        lake.data.merge_insert_into_table(id, ["nope"], stream(rows(1)), when_not_matched_insert_all=True)
    with refused(400, 13):
        lake.data.merge_insert_into_table(id, ["id"], stream(rows(1)))
    with refused(400, 13):
        lake.data.merge_insert_into_table(id, ["id"], stream(rows(1)), when_matched_update_all=True, timeout="soon")


def test_updates_change_rows_and_properties_in_one_transaction(lake: Lake) -> None:
    id = lake.table(5)
    done = lake.data.update_table(
        id, UpdateTableRequest(updates=[["text", "'x'"]], predicate="id >= 3", properties={"seen": "yes"})
    )
    assert (done.updated_rows, done.version, done.properties) == (2, 2, {"seen": "yes"})
    assert lake.dataset(id).count_rows("text = 'x'") == 2
    assert lake.metadata.describe_table(id, DescribeTableRequest()).properties == {"seen": "yes"}
    assert lake.data.update_table(id, UpdateTableRequest(updates=[["id", "id + 100"]])).updated_rows == 5
    with refused(404, 12):
        lake.data.update_table(id, UpdateTableRequest(updates=[["nope", "1"]]))
    with refused(400, 13):
        lake.data.update_table(id, UpdateTableRequest(updates=[["id", "id +"]]))


def test_deleted_rows_are_absent_until_an_earlier_version_is_restored(lake: Lake) -> None:
    id = lake.table(5)
    assert lake.data.delete_from_table(id, DeleteFromTableRequest(predicate="id > 1")).version == 2
    assert (count(lake, id), count(lake, id, version=1), count(lake, id, predicate="id = 1")) == (2, 5, 1)
    lake.metadata.restore_table(id, RestoreTableRequest(version=1))
    assert (count(lake, id), versions(lake, id)) == (5, [1, 2, 3])
    with refused(404, 11):
        lake.metadata.restore_table(id, RestoreTableRequest(version=77))
    with refused(404, 12):
        lake.data.delete_from_table(id, DeleteFromTableRequest(predicate="nope = 1"))


@pytest.mark.parametrize("predicate", ["", "id >", "'text'", "id in (select 1)", "no_such_function(id)"])
def test_an_invalid_predicate_is_refused(lake: Lake, predicate: str) -> None:
    id = lake.table(2)
    with refused(400, 13):
        lake.data.delete_from_table(id, DeleteFromTableRequest(predicate=predicate))
    with refused(400, 13):
        lake.data.count_table_rows(id, CountTableRowsRequest(predicate=predicate))
    assert versions(lake, id) == [1]
