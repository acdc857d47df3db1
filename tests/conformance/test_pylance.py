"""pylance against a real server, with its own REST client."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import lance
import lance_namespace
import pyarrow as pa
import pytest
from lance_namespace import (
    DescribeTableRequest,
    DropTableRequest,
    LanceNamespace,
    ListTablesRequest,
    ListTableVersionsRequest,
    TableAlreadyExistsError,
    TableNotFoundError,
)

from moorage.testing.server import PATIENCE_SECONDS, ServerProcess

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Oslo", "Rome", "Kyiv"]})


def client_of(url: str) -> LanceNamespace:
    return lance_namespace.connect("rest", {"uri": f"{url}/lance"})


@pytest.fixture
def lake(lance_server: ServerProcess) -> LanceNamespace:
    return client_of(lance_server.url)


def write(lake: LanceNamespace, table_id: list[str], mode: str, rows: pa.Table = ROWS) -> lance.LanceDataset:
    return lance.write_dataset(rows, namespace_client=lake, table_id=table_id, mode=mode)


def opened(lake: LanceNamespace, table_id: list[str], **how: Any) -> lance.LanceDataset:
    return lance.dataset(namespace_client=lake, table_id=table_id, **how)


def ids(dataset: lance.LanceDataset) -> list[int]:
    return sorted(dataset.to_table(columns=["id"])["id"].to_pylist())


def versions(lake: LanceNamespace, table_id: list[str]) -> list[int]:
    listed = lake.list_table_versions(ListTableVersionsRequest(id=table_id, descending=True))
    return [version.version for version in listed.versions]


def test_rows_are_created_appended_and_overwritten(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    assert write(lake, table, "create").version == 1
    assert write(lake, table, "append").version == 2
    assert ids(opened(lake, table)) == [1, 1, 2, 2, 3, 3]
    assert write(lake, table, "overwrite").version == 3
    assert ids(opened(lake, table)) == [1, 2, 3]
    assert versions(lake, table) == [3, 2, 1]


def test_a_dataset_is_opened_by_version_and_by_tag(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    write(lake, table, "create")
    dataset = write(lake, table, "append")
    dataset.tags.create("before", 1)
    write(lake, table, "overwrite", ROWS.slice(0, 1))
    assert [opened(lake, table, version=version).count_rows() for version in (1, 2, 3, "before")] == [3, 6, 1, 3]
    assert dataset.checkout_version("before").count_rows() == 3


def test_versions_that_pylance_cleans_up_are_not_published_again(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    for mode in ("create", "overwrite", "overwrite"):
        write(lake, table, mode)
    opened(lake, table).cleanup_old_versions(timedelta(0))
    folder = Path(lake.describe_table(DescribeTableRequest(id=table)).location.removeprefix("file://"))
    newest = next((folder / "_versions").glob(f"{2**64 - 1 - 3}.manifest-*"), None)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while newest is not None and newest.exists():  # until all of them are published
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert versions(lake, table) == [version["version"] for version in opened(lake, table).versions()] == [3]


def test_rows_are_deleted_updated_and_merged(lake: LanceNamespace, lance_space: list[str]) -> None:
    dataset = write(lake, [*lance_space, "orders"], "create")
    dataset.delete("id = 2")
    dataset.update({"city": "'Bergen'"}, where="id = 1")
    new = pa.table({"id": pa.array([3, 4], pa.int64()), "city": ["Lviv", "Bonn"]})
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(new)
    rows = opened(lake, [*lance_space, "orders"]).to_table().sort_by("id")
    assert rows.to_pydict() == {"id": [1, 3, 4], "city": ["Bergen", "Lviv", "Bonn"]}
    assert versions(lake, [*lance_space, "orders"]) == [4, 3, 2, 1]


def test_manifests_that_were_renamed_to_the_new_scheme_are_found(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    by_name: dict[str, Any] = {"namespace_client": lake, "table_id": table}
    lance.write_dataset(ROWS, enable_v2_manifest_paths=False, **by_name)
    for _ in range(2):
        write(lake, table, "append")
    opened(lake, table).migrate_manifest_paths_v2()  # type: ignore[no-untyped-call]
    assert versions(lake, table) == [3, 2, 1]
    assert [opened(lake, table, version=version).count_rows() for version in (1, 2, 3)] == [3, 6, 9]
    write(lake, table, "append")
    assert (versions(lake, table), opened(lake, table).count_rows()) == ([4, 3, 2, 1], 12)


def test_a_branch_has_its_own_versions(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    write(lake, table, "create")
    dataset = write(lake, table, "append")
    branch = dataset.create_branch("audit", 1)
    branch.delete("id = 1")
    assert (branch.count_rows(), opened(lake, table).count_rows()) == (2, 6)
    again = opened(lake, table).checkout_version(("audit", None))
    assert ids(again) == [2, 3]
    assert versions(lake, table) == [2, 1]


def test_columns_are_added_indexed_and_dropped(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    dataset = write(lake, table, "create")
    dataset.add_columns({"double": "id * 2"})
    dataset.create_scalar_index("id", "BTREE")
    dataset.drop_columns(["city"])
    again = opened(lake, table)
    assert (again.schema.names, again.version) == (["id", "double"], 4)
    assert [index.name for index in again.describe_indices()] == ["id_idx"]
    assert again.to_table(filter="id = 2")["double"].to_pylist() == [4]


def test_a_stale_handle_appends_to_what_others_wrote(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    stale = write(lake, table, "create")
    write(lake, table, "append")
    stale.insert(ROWS, mode="append")
    assert opened(lake, table).count_rows() == 9
    assert versions(lake, table) == [3, 2, 1]


def test_a_write_after_the_newest_versions_were_deleted_gets_the_next_number(
    lake: LanceNamespace, lance_space: list[str], lance_server: ServerProcess
) -> None:
    table_id = [*lance_space, "trimmed"]

    def post(operation: str, **body: Any) -> Any:
        path = f"{lance_server.url}/lance/v1/table/{'$'.join(table_id)}/{operation}"
        return httpx.post(path, json=body, trust_env=False, timeout=60).raise_for_status().json()

    write(lake, table_id, "create")
    for _ in range(3):
        write(lake, table_id, "append")
    post("version/delete", ranges=[{"start_version": 3, "end_version": -1}])
    assert (versions(lake, table_id), opened(lake, table_id).version) == ([2, 1], 2)
    assert post("version/describe")["version"]["version"] == 2
    assert write(lake, table_id, "append").version == 5
    assert post("update", updates=[["id", "id + 1"]])["version"] == 6
    assert versions(lake, table_id) == [6, 5, 2, 1]


def test_a_write_that_bypasses_the_catalog_does_not_block_others(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    unpickled = pickle.loads(pickle.dumps(write(lake, table, "create")))
    unpickled.insert(ROWS, mode="append")
    with pytest.raises(OSError, match="Commit result for version 3 is unknown"):
        write(lake, table, "append")
    assert write(lake, table, "append").version == 2
    assert ids(opened(lake, table)) == [1, 1, 2, 2, 3, 3]


def test_errors_arrive_as_the_exceptions_that_clients_catch(lake: LanceNamespace, lance_space: list[str]) -> None:
    table = [*lance_space, "orders"]
    write(lake, table, "create")
    with pytest.raises(TableAlreadyExistsError):
        write(lake, table, "create")
    with pytest.raises(TableNotFoundError):
        opened(lake, [*lance_space, "none"])
    with pytest.raises(ValueError, match="9"):
        opened(lake, table, version=9)
    lake.drop_table(DropTableRequest(id=table))
    with pytest.raises(TableNotFoundError):
        opened(lake, table)
    assert lake.list_tables(ListTablesRequest(id=lance_space)).tables == []


def test_published_manifests_make_the_files_a_dataset_without_the_catalog(
    lake: LanceNamespace, lance_space: list[str], lance_server: ServerProcess
) -> None:
    table = [*lance_space, "orders"]
    for mode in ("create", "append", "append"):
        write(lake, table, mode)
    location = lake.describe_table(DescribeTableRequest(id=table)).location
    wait_until_published(Path(location.removeprefix("file://")), 3)
    assert lance.dataset(location).count_rows() == 9
    assert [version["version"] for version in opened(lake, table).versions()] == [1, 2, 3]


def wait_until_published(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(list(folder.glob("_versions/*.manifest"))) < count:
        assert time.monotonic() < deadline, "the server did not publish"
        time.sleep(0.05)


def append_many(url: str, table_id: list[str], start: int, count: int) -> None:
    """A writer that does not coordinate with the others."""
    lake = client_of(url)
    for id in range(start, start + count):
        write(lake, table_id, "append", pa.table({"id": pa.array([id], pa.int64()), "city": [str(id)]}))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_eight_processes_append_concurrently_and_no_row_is_lost(
    lake: LanceNamespace, lance_space: list[str], lance_server: ServerProcess
) -> None:
    table, each = [*lance_space, "orders"], 3
    write(lake, table, "create", ROWS.slice(0, 0))
    spawn = multiprocessing.get_context("spawn")
    writers = [
        spawn.Process(target=append_many, args=(lance_server.url, table, writer * each, each)) for writer in range(8)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(500)
    assert [writer.exitcode for writer in writers] == [0] * 8
    assert ids(opened(lake, table)) == list(range(8 * each))
    assert versions(lake, table) == list(range(8 * each + 1, 0, -1))
