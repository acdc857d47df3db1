"""pylance writes to several tables in one transaction of the client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments
from lance_namespace import (
    BatchCommitTablesRequest,
    BatchCommitTablesResponse,
    ConcurrentModificationError,
    CreateTableVersionRequest,
    DescribeTableRequest,
    DescribeTransactionRequest,
    DropTableRequest,
    InvalidInputError,
    ListTablesRequest,
    ListTableVersionsRequest,
    NamespaceNotFoundError,
    TableAlreadyExistsError,
    TableExistsRequest,
    TableNotFoundError,
    UnsupportedOperationError,
)

from moorage.client import Client
from moorage.client.lance import Lake, Transaction
from moorage.client.operations import CreateNamespace, LanceVersion
from moorage.testing.server import ServerProcess
from tests.client.faulty_proxy import FaultyProxy

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 33\r\nconnection: close\r\n\r\n"
    b'{"error": "stopping", "code": 17}'
)
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


class CommitsThroughProxy(Lake):
    """Reads directly, and commits through a faulty proxy."""

    def __init__(self, proxy: FaultyProxy, url: str) -> None:
        super().__init__(url)
        self.proxied = Lake(proxy.url)

    def batch_commit_tables(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        return self.proxied.batch_commit_tables(request)


@pytest.fixture
def lake(lance_server: ServerProcess) -> Lake:
    return Lake(lance_server.url)


@pytest.fixture
def tables(lake: Lake, lance_space: list[str]) -> list[list[str]]:
    """Five tables of three rows."""
    created_tables = [[*lance_space, name] for name in ("a", "b", "c", "d", "e")]
    for table in created_tables:
        write(lake, table, "create")
    return created_tables


def write(where: Lake | Transaction, table: list[str], mode: str = "append") -> lance.LanceDataset:
    return lance.write_dataset(ROWS, namespace_client=where, table_id=table, mode=mode)


def rows(where: Lake | Transaction, table: list[str], **how: Any) -> int:
    return int(lance.dataset(namespace_client=where, table_id=table, **how).count_rows())


def listed(where: Lake | Transaction, space: list[str], limit: int | None = None) -> list[str]:
    page = where.list_tables(ListTablesRequest(id=space, limit=limit))
    found = list(page.tables)
    while page.page_token:
        page = where.list_tables(ListTablesRequest(id=space, limit=limit, page_token=page.page_token))
        found += page.tables
    return sorted(found)


def versions(where: Lake | Transaction, table: list[str], limit: int | None = None) -> list[int]:
    query = {"id": table, "limit": limit, "descending": True}
    page = where.list_table_versions(ListTableVersionsRequest(**query))
    found = [version.version for version in page.versions]
    while page.page_token:
        page = where.list_table_versions(ListTableVersionsRequest(page_token=page.page_token, **query))
        found += [version.version for version in page.versions]
    return found


def test_five_tables_change_in_one_entry_and_not_before_the_commit(
    lake: Lake, tables: list[list[str]], lance_server: ServerProcess
) -> None:
    with Client(lance_server.url) as client:
        before = client.health().seq
        with lake.transaction() as transaction:
            for table in tables:
                write(transaction, table)
            assert [rows(lake, table) for table in tables] == [3] * 5
            assert client.health().seq == before
        (entry,) = client.feed.read(before, up_to=client.health().seq)
    assert [change["version"] for change in entry.changes] == [2] * 5
    assert [rows(lake, table) for table in tables] == [6] * 5
    assert transaction.transaction_id is not None
    described = lake.describe_transaction(DescribeTransactionRequest(id=[transaction.transaction_id]))
    assert described.status.lower() == "succeeded"


def test_a_transaction_reads_its_own_writes(lake: Lake, tables: list[list[str]]) -> None:
    table = tables[0]
    with lake.transaction() as transaction:
        write(transaction, table)
        dataset = lance.dataset(namespace_client=transaction, table_id=table)
        assert (dataset.version, dataset.count_rows()) == (2, 6)
        dataset.delete("id = 1")
        write(transaction, table)
        location = Path(str(dataset.uri).removeprefix("file://"))
        assert [rows(transaction, table, version=version) for version in (1, 2, 3, None)] == [3, 6, 4, 7]
        assert versions(transaction, table) == versions(transaction, table, limit=1) == [4, 3, 2, 1]
        assert versions(lake, table) == [1]
        assert list(location.glob("_transactions/moorage/*/*.manifest"))
    assert not list(location.glob("_transactions/moorage/*/*.manifest"))
    assert [rows(lake, table, version=version) for version in (1, 2, 3, None)] == [3, 6, 4, 7]


def test_new_tables_are_declared_with_their_first_rows(lake: Lake, lance_space: list[str]) -> None:
    first, second = [*lance_space, "first"], [*lance_space, "second"]
    write(lake, [*lance_space, "old"], "create")
    with lake.transaction() as transaction:
        write(transaction, first, "create")
        write(transaction, first)
        write(transaction, second, "create")
        assert (rows(transaction, first), rows(transaction, first, version=1)) == (6, 3)
        transaction.table_exists(TableExistsRequest(id=first))
        for limit in (None, 1, 2):
            assert listed(transaction, lance_space, limit) == ["first", "old", "second"]
        assert listed(lake, lance_space) == ["old"]
        location = transaction.describe_table(DescribeTableRequest(id=first)).location
    assert listed(lake, lance_space) == ["first", "old", "second"]
    assert lake.describe_table(DescribeTableRequest(id=first)).location == location
    assert (rows(lake, first), rows(lake, second)) == (6, 3)


def test_an_exception_rolls_the_transaction_back(lake: Lake, tables: list[list[str]], lance_space: list[str]) -> None:
    def write_and_fail() -> None:
        with lake.transaction() as transaction:
            write(transaction, tables[0])
            write(transaction, [*lance_space, "new"], "create")
            assert rows(transaction, tables[0]) == 6
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        write_and_fail()
    assert (rows(lake, tables[0]), versions(lake, tables[0])) == (3, [1])
    assert "new" not in listed(lake, lance_space)
    # What it staged affects no other client, not even a reader that uses only the files.
    write(lake, tables[0])
    write(lake, [*lance_space, "new"], "create")
    assert (rows(lake, tables[0]), rows(lake, [*lance_space, "new"])) == (6, 3)


def test_a_conflict_on_the_third_of_five_tables_names_it_and_changes_none(lake: Lake, tables: list[list[str]]) -> None:
    transaction = lake.transaction()
    for table in tables:
        write(transaction, table)
    # The read in the transaction copies its manifest. The manifest of the winner must not change.
    assert rows(transaction, tables[2]) == 6
    lance.write_dataset(ROWS.slice(0, 1), namespace_client=lake, table_id=tables[2], mode="append")
    with pytest.raises(ConcurrentModificationError, match=r"\$c: version 2 is taken"):
        transaction.commit()
    with pytest.raises(InvalidInputError, match="was not committed; begin a new one"):
        transaction.commit()
    assert [rows(lake, table) for table in tables] == [3, 3, 4, 3, 3]
    assert [versions(lake, table) for table in tables] == [[1], [1], [2, 1], [1], [1]]


def test_a_commit_whose_response_was_lost_is_retried_and_applied_once(
    lake: Lake, tables: list[list[str]], lance_space: list[str], lance_server: ServerProcess
) -> None:
    new = [*lance_space, "new"]
    with (
        FaultyProxy(lance_server.port) as proxy,
        CommitsThroughProxy(proxy, lance_server.url).transaction() as transaction,
    ):
        proxy.faults = [None, BUSY]
        write(transaction, tables[0])
        write(transaction, new, "create")
    assert (len(proxy.keys()), len(set(proxy.keys()))) == (3, 1)
    assert [versions(lake, table) for table in (tables[0], new)] == [[2, 1], [1]]
    assert (rows(lake, tables[0]), rows(lake, new)) == (6, 3)


def test_a_table_that_another_client_created_first_is_a_conflict(lake: Lake, lance_space: list[str]) -> None:
    table = [*lance_space, "new"]
    transaction = lake.transaction()
    write(transaction, table, "create")
    lance.write_dataset(ROWS.slice(0, 1), namespace_client=lake, table_id=table)
    with pytest.raises(TableAlreadyExistsError, match=r"\$new"):
        transaction.commit()
    assert rows(lake, table) == 1


def test_a_commit_of_a_stale_handle_is_refused_and_the_transaction_continues(
    lake: Lake, tables: list[list[str]]
) -> None:
    with lake.transaction() as transaction:
        stale = lance.dataset(namespace_client=transaction, table_id=tables[0])
        write(transaction, tables[0])
        late = lance.LanceOperation.Append(write_fragments(ROWS, stale))
        with pytest.raises(OSError, match="Commit conflict"):
            lance.LanceDataset.commit(stale, late, read_version=1, max_retries=1)
        lance.dataset(namespace_client=transaction, table_id=tables[0]).delete("id = 1")
    assert (rows(lake, tables[0]), versions(lake, tables[0])) == (4, [3, 2, 1])


def test_tables_are_compacted_in_a_transaction(lake: Lake, tables: list[list[str]]) -> None:
    """Compaction creates the same version twice: to reserve ids for its fragments, and then with them."""
    for table in tables[:2]:
        write(lake, table)
    with lake.transaction() as transaction:
        write(transaction, tables[0])
        for table in tables[:2]:
            dataset = lance.dataset(namespace_client=transaction, table_id=table)
            assert dataset.optimize.compact_files().fragments_added == 1
            assert len(dataset.get_fragments()) == 1
        write(transaction, tables[1])
        assert [rows(lake, table) for table in tables[:2]] == [6, 6]
    assert [versions(lake, table) for table in tables[:2]] == [[4, 3, 2, 1]] * 2
    found = [lance.dataset(namespace_client=lake, table_id=table) for table in tables[:2]]
    assert [(dataset.to_table().num_rows, len(dataset.get_fragments())) for dataset in found] == [(9, 1), (9, 2)]


def test_a_transaction_on_a_table_with_automatic_cleanup_loses_nothing(
    lake: Lake, tables: list[list[str]], lance_space: list[str]
) -> None:
    """pylance cleans up after a commit, and does not know that the transaction still needs earlier versions."""
    immediately: Any = {"interval": 1, "older_than_seconds": 0}
    clean = [*lance_space, "clean"]
    table: dict[str, Any] = {"namespace_client": lake, "table_id": clean}
    lance.write_dataset(ROWS, auto_cleanup_options=immediately, **table)
    with lake.transaction() as transaction:
        write(transaction, clean)
        with pytest.raises(OSError, match="Commit result for version 3 is unknown"):
            write(transaction, clean)
        write(transaction, tables[0])
        write(transaction, tables[0])
    assert [rows(lake, each) for each in (clean, tables[0])] == [6, 9]
    rolled_back = lake.transaction()
    write(rolled_back, clean)
    rolled_back.rollback()
    assert lance.dataset(**table).to_table()["id"].to_pylist() == [1, 2, 3, 1, 2, 3]


def test_invalid_operations_are_refused_before_the_commit(
    lake: Lake, tables: list[list[str]], lance_space: list[str]
) -> None:
    with lake.transaction() as transaction:
        with pytest.raises(TableAlreadyExistsError):
            write(transaction, tables[0], "create")
        with pytest.raises(NamespaceNotFoundError):
            write(transaction, ["lake", "nowhere", "t"], "create")
        with pytest.raises(TableNotFoundError):
            write(transaction, [*lance_space, "none"])
        with pytest.raises(UnsupportedOperationError):
            transaction.drop_table(DropTableRequest(id=tables[0]))
        write(transaction, [*lance_space, "new"], "create")
        with pytest.raises(TableAlreadyExistsError):
            write(transaction, [*lance_space, "new"], "create")
    assert rows(lake, [*lance_space, "new"]) == 3


def test_a_transaction_ends_once(lake: Lake, tables: list[list[str]]) -> None:
    with lake.transaction() as transaction:
        write(transaction, tables[0])
        transaction.commit()
    assert rows(lake, tables[0]) == 6
    for late in (transaction.commit, transaction.rollback):
        with pytest.raises(InvalidInputError, match="was committed; begin a new one"):
            late()
    with pytest.raises(InvalidInputError, match="was committed"):
        write(transaction, tables[0])
    with lake.transaction() as rolled_back:
        write(rolled_back, tables[0])
        rolled_back.rollback()
    with pytest.raises(InvalidInputError, match="was rolled back"):
        rolled_back.commit()
    assert rows(lake, tables[0]) == 6


def test_operations_that_a_transaction_hands_over_are_committed_together_with_others(
    lake: Lake, tables: list[list[str]], lance_space: list[str], lance_server: ServerProcess
) -> None:
    transaction = lake.transaction()
    write(transaction, tables[0])
    write(transaction, tables[1])
    write(transaction, [*lance_space, "new"], "create")
    write(transaction, [*lance_space, "new"])
    operations = transaction.hand_over()
    with pytest.raises(InvalidInputError, match="was handed over"):
        transaction.commit()
    space = CreateNamespace(path=(*lance_space, "beside"))
    with Client(lance_server.url) as client:
        assert client.transact([space, *operations]).versions == (2, 2, 1, 2)
    assert [rows(lake, table) for table in (*tables[:3], [*lance_space, "new"])] == [6, 6, 3, 6]


def test_all_fields_of_a_version_are_handed_over() -> None:
    fields: dict[str, Any] = {
        "version": 2,
        "manifest_path": "t/_versions/2",
        "manifest_size": 9,
        "e_tag": "x",
        "naming_scheme": "V1",
    }
    fields |= {"metadata": {"by": "ann"}, "branch": "dev"}
    transaction = Lake("http://127.0.0.1:9").transaction()
    created = transaction.create_table_version(CreateTableVersionRequest(id=["lake", "t"], **fields)).version
    assert created is not None
    assert (created.manifest_size, created.e_tag, created.metadata) == (9, "x", {"by": "ann"})
    assert transaction.hand_over() == [LanceVersion(path=("lake", "t"), **fields)]


def test_a_transaction_without_writes_sends_no_request() -> None:
    with Lake("http://127.0.0.1:9").transaction():
        pass


def test_the_client_does_not_import_lance() -> None:
    program = "import sys, moorage.client; sys.exit(any(name.startswith('lance') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
