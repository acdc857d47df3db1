"""Lance's generated client against a real server, with every operation on namespaces, tables and versions."""

from __future__ import annotations

from typing import Any

import pytest
from lance_namespace_urllib3_client.api.table_api import TableApi
from lance_namespace_urllib3_client.models import (
    BatchCommitTablesRequest,
    BatchCreateTableVersionsRequest,
    BatchDeleteTableVersionsRequest,
    CommitTableOperation,
    CreateNamespaceRequest,
    CreateTableVersionEntry,
    CreateTableVersionRequest,
    DeclareTableRequest,
    DeregisterTableRequest,
    DescribeNamespaceRequest,
    DescribeTableRequest,
    DescribeTableVersionRequest,
    DescribeTransactionRequest,
    DropNamespaceRequest,
    NamespaceExistsRequest,
    RegisterTableRequest,
    RenameTableRequest,
    TableExistsRequest,
    VersionRange,
)

from moorage.testing import lance_writer as write
from tests.conformance.lance.lake import Lake, refused


def declared(lake: Lake, *versions: int) -> tuple[str, str]:
    """A new table with these versions: its id and location."""
    id = lake.name()
    location = str(lake.metadata.declare_table(id, DeclareTableRequest()).location)
    for version in versions:
        lake.metadata.create_table_version(id, CreateTableVersionRequest(**write.stage(location, version)))
    return id, location


def numbers(lake: Lake, id: str, **query: Any) -> list[int]:
    return [each.version for each in lake.metadata.list_table_versions(id, descending=True, **query).versions]


def test_namespaces_are_created_described_listed_and_dropped(lake: Lake) -> None:
    api, id = lake.metadata, "lake$to and fro"
    created = api.create_namespace(id, CreateNamespaceRequest(properties={"owner": "ann"}))
    assert created.properties == {"owner": "ann"}
    with refused(409, 2):
        api.create_namespace(id, CreateNamespaceRequest(mode="Create"))
    api.create_namespace(id, CreateNamespaceRequest(id=id.split("$"), mode="ExistOk"))
    assert api.describe_namespace(id, DescribeNamespaceRequest()).properties == {"owner": "ann"}
    api.namespace_exists(id, NamespaceExistsRequest())
    assert "to and fro" in api.list_namespaces("lake", limit=100).namespaces
    first = api.list_namespaces("lake", limit=1)
    assert len(first.namespaces) == 1
    assert api.list_namespaces("lake", limit=1, page_token=first.page_token).namespaces != first.namespaces
    api.drop_namespace(id, DropNamespaceRequest(behavior="Cascade"))
    api.drop_namespace(id, DropNamespaceRequest(mode="Skip"))
    with refused(404, 1):
        api.namespace_exists(id, NamespaceExistsRequest())


def test_tables_are_declared_described_listed_and_dropped(lake: Lake) -> None:
    api = lake.metadata
    id, location = declared(lake)
    name = id.rpartition("$")[2]
    with refused(409, 5):
        api.declare_table(id, DeclareTableRequest())
    described = api.describe_table(id, DescribeTableRequest(), check_declared=True, with_table_uri=True)
    assert (described.location, described.table_uri, described.managed_versioning) == (location, location, True)
    assert described.is_only_declared is True
    api.table_exists(id, TableExistsRequest())
    assert name in api.list_tables("lake$sea", limit=1000).tables
    assert name not in api.list_tables("lake$sea", limit=1000, include_declared=False).tables
    assert id in TableApi(api.api_client).list_all_tables(limit=1000).tables
    removed = api.drop_table(id)
    assert (removed.id, removed.location) == (id.split("$"), location)
    with refused(404, 4):
        api.table_exists(id, TableExistsRequest())


def test_a_table_is_renamed_deregistered_and_registered_again(lake: Lake) -> None:
    api = lake.metadata
    id, location = declared(lake, 1, 2)
    moved = lake.name()
    api.rename_table(id, RenameTableRequest(new_table_name=moved.rpartition("$")[2], new_namespace_id=["lake", "sea"]))
    assert numbers(lake, moved) == [2, 1]
    removed = api.deregister_table(moved, DeregisterTableRequest())
    assert (removed.id, removed.location, removed.properties) == (moved.split("$"), location, {})
    registered = api.register_table(id, RegisterTableRequest(location=location, properties={"k": "v"}))
    assert (registered.location, registered.properties) == (location, {"k": "v"})
    assert numbers(lake, id) == [2, 1]


def test_versions_are_created_described_listed_and_deleted(lake: Lake) -> None:
    api = lake.metadata
    id, location = declared(lake, 1)
    staged = write.stage(location, 2)
    created = api.create_table_version(id, CreateTableVersionRequest(**staged, metadata={"by": "ann"}))
    assert created.version is not None
    again = api.create_table_version(id, CreateTableVersionRequest(**staged, metadata={"by": "ann"}))
    assert (again.version, again.transaction_id) == (created.version, created.transaction_id)
    assert (created.version.e_tag, created.version.metadata) == (staged["e_tag"], {"by": "ann"})
    with refused(409, 14):
        api.create_table_version(id, CreateTableVersionRequest(**write.stage(location, 2)))
    with refused(400, 13):
        api.create_table_version(id, CreateTableVersionRequest(**write.stage(location, 4)))
    assert api.describe_table_version(id, DescribeTableVersionRequest(version=2)).version == created.version
    assert numbers(lake, id, limit=1) == [2]
    with refused(404, 22):
        api.list_table_versions(id, branch="dev")
    ranges = [VersionRange(start_version=0, end_version=2)]
    assert api.batch_delete_table_versions(id, BatchDeleteTableVersionsRequest(ranges=ranges)).deleted_count == 1
    with refused(404, 11):
        api.describe_table_version(id, DescribeTableVersionRequest(version=1))


def test_versions_of_several_tables_are_created_together(lake: Lake) -> None:
    tables = [declared(lake, 1) for _ in range(3)]
    entries = [CreateTableVersionEntry(id=id.split("$"), **write.stage(location, 2)) for id, location in tables]
    created = lake.metadata.batch_create_table_versions(BatchCreateTableVersionsRequest(entries=entries))
    assert [version.e_tag for version in created.versions] == [entry.e_tag for entry in entries]
    assert [numbers(lake, id) for id, _ in tables] == [[2, 1]] * 3


def test_a_batch_commits_all_or_nothing_and_is_a_transaction(lake: Lake) -> None:
    (one, location), (two, _), new = declared(lake, 1), declared(lake, 1), lake.name()

    def batch(version: int) -> BatchCommitTablesRequest:
        everything = BatchDeleteTableVersionsRequest(
            id=one.split("$"), ranges=[VersionRange(start_version=0, end_version=version)]
        )
        return BatchCommitTablesRequest(
            operations=[
                CommitTableOperation(declare_table=DeclareTableRequest(id=new.split("$"), properties={"k": "v"})),
                CommitTableOperation(
                    create_table_version=CreateTableVersionRequest(id=one.split("$"), **write.stage(location, version))
                ),
                CommitTableOperation(delete_table_versions=everything),
                CommitTableOperation(deregister_table=DeregisterTableRequest(id=two.split("$"))),
            ]
        )

    with refused(400, 13):
        lake.metadata.batch_commit_tables(batch(3))
    with refused(404, 4):
        lake.metadata.describe_table(new, DescribeTableRequest())
    done = lake.metadata.batch_commit_tables(batch(2))
    declare, create, delete, deregister = done.results
    assert declare.declare_table is not None
    assert declare.declare_table.properties == {"k": "v"}
    assert create.create_table_version is not None
    assert create.create_table_version.version is not None
    assert create.create_table_version.version.version == 2
    assert delete.delete_table_versions is not None
    assert delete.delete_table_versions.deleted_count == 1
    assert deregister.deregister_table is not None
    assert deregister.deregister_table.id == two.split("$")
    assert numbers(lake, one) == [2]
    described = lake.metadata.describe_transaction(str(done.transaction_id), DescribeTransactionRequest())
    assert described.status.lower() == "succeeded"


@pytest.mark.parametrize("id", ["lake$sea$a b/c", "lake$sea$50%+1&x=y", "lake$sea$été"])
def test_names_that_need_encoding_arrive_unchanged(lake: Lake, id: str) -> None:
    lake.metadata.declare_table(id, DeclareTableRequest())
    described = lake.metadata.describe_table(id, DescribeTableRequest(id=id.split("$")))
    assert [*(described.namespace or ()), described.table] == id.split("$")
