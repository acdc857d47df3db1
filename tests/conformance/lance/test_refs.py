"""Tags and branches through Lance's generated client, beside pylance, which writes their files directly."""

from __future__ import annotations

from datetime import timedelta

import pytest
from lance_namespace_urllib3_client.models import (
    BatchDeleteTableVersionsRequest,
    CountTableRowsRequest,
    CreateTableBranchRequest,
    CreateTableTagRequest,
    DeleteFromTableRequest,
    DeleteTableBranchRequest,
    DeleteTableTagRequest,
    GetTableTagVersionRequest,
    UpdateTableTagRequest,
)

from tests.conformance.lance.lake import Lake, refused, rows, stream


def tagged(lake: Lake, id: str) -> dict[str, tuple[int, str | None]]:
    return {name: (each.version, each.branch) for name, each in lake.tags.list_table_tags(id).tags.items()}


def tag(lake: Lake, id: str, name: str, version: int, branch: str | None = None) -> None:
    lake.tags.create_table_tag(id, CreateTableTagRequest(tag=name, version=version, branch=branch))


def branch(lake: Lake, id: str, name: str, **start: object) -> None:
    lake.branches.create_table_branch(id, CreateTableBranchRequest.model_validate({"name": name, **start}))


def count(lake: Lake, id: str, on: str | None = None) -> int:
    return int(lake.data.count_table_rows(id, CountTableRowsRequest(branch=on)))


def test_tags_of_the_catalog_and_of_clients_are_the_same(lake: Lake) -> None:
    id = lake.table(2)
    lake.data.insert_into_table(id, stream(rows(2, 2)))
    tag(lake, id, "gold", 1)
    assert lake.ids(id, version="gold") == [0, 1]
    lake.dataset(id).tags.create("silver", 2)
    assert tagged(lake, id) == {"gold": (1, None), "silver": (2, None)}
    lake.tags.update_table_tag(id, UpdateTableTagRequest(tag="gold", version=2))
    assert lake.ids(id, version="gold") == [0, 1, 2, 3]
    assert lake.tags.get_table_tag_version(id, GetTableTagVersionRequest(tag="silver")).version == 2
    lake.tags.delete_table_tag(id, DeleteTableTagRequest(tag="silver"))
    assert list(lake.dataset(id).tags.list()) == ["gold"]


def test_tags_that_are_taken_missing_or_misnamed_are_refused(lake: Lake) -> None:
    id = lake.table(2)
    tag(lake, id, "gold", 1)
    with refused(409, 9):
        tag(lake, id, "gold", 1)
    with refused(404, 11):
        tag(lake, id, "later", 9)
    with refused(404, 22):
        tag(lake, id, "elsewhere", 1, branch="nope")
    for name in ("a/b", "..", ".hidden", "a b", "é", "x.lock"):
        with refused(400, 13):
            tag(lake, id, name, 1)
    with refused(404, 8):
        lake.tags.update_table_tag(id, UpdateTableTagRequest(tag="none", version=1))
    with refused(404, 8):
        lake.tags.delete_table_tag(id, DeleteTableTagRequest(tag="none"))
    with refused(404, 8):
        lake.tags.get_table_tag_version(id, GetTableTagVersionRequest(tag="none"))
    assert tagged(lake, id) == {"gold": (1, None)}


def test_a_tagged_version_cannot_be_deleted(lake: Lake) -> None:
    id = lake.table(2)
    for first in (2, 4):
        lake.data.insert_into_table(id, stream(rows(2, first)))
    lake.dataset(id).tags.create("gold", 2)
    ranges = {"ranges": [{"start_version": 1, "end_version": 3}]}
    with refused(409, 19):
        lake.metadata.batch_delete_table_versions(id, BatchDeleteTableVersionsRequest.model_validate(ranges))
    assert lake.ids(id, version="gold") == [0, 1, 2, 3]
    lake.tags.delete_table_tag(id, DeleteTableTagRequest(tag="gold"))
    lake.metadata.batch_delete_table_versions(id, BatchDeleteTableVersionsRequest.model_validate(ranges))
    with refused(404, 11):
        tag(lake, id, "gold", 2)


def test_a_version_from_which_a_branch_starts_cannot_be_deleted(lake: Lake) -> None:
    """Without it pylance could not clean up: it reads the version from which each branch starts."""
    id = lake.table(2)
    for first in (2, 4):
        lake.data.insert_into_table(id, stream(rows(2, first)))
    lake.dataset(id).create_branch("dev", 2)
    ranges = {"ranges": [{"start_version": 1, "end_version": 3}]}
    with refused(409, 19):
        lake.metadata.batch_delete_table_versions(id, BatchDeleteTableVersionsRequest.model_validate(ranges))
    assert lake.dataset(id).cleanup_old_versions(timedelta(0)).old_versions == 1
    lake.branches.delete_table_branch(id, DeleteTableBranchRequest(name="dev"))
    lake.metadata.batch_delete_table_versions(id, BatchDeleteTableVersionsRequest.model_validate(ranges))
    assert lake.ids(id) == [0, 1, 2, 3, 4, 5]


def test_tags_and_branches_are_listed_in_pages(lake: Lake) -> None:
    id = lake.table(1)
    names = ["a", "b", "c", "d", "e"]
    for name in names:
        tag(lake, id, name, 1)
        branch(lake, id, f"{name}/{name}")
    tags: list[str] = []
    branches: list[str] = []
    tag_token = branch_token = None
    for _ in range(3):
        tag_page = lake.tags.list_table_tags(id, limit=2, page_token=tag_token)
        branch_page = lake.branches.list_table_branches(id, limit=2, page_token=branch_token)
        tags += tag_page.tags
        branches += branch_page.branches
        tag_token, branch_token = tag_page.page_token, branch_page.page_token
    assert (tags, tag_token) == (names, None)
    assert (branches, branch_token) == ([f"{name}/{name}" for name in names], None)


def test_a_branch_is_independent_of_the_main_line(lake: Lake) -> None:
    id = lake.table(2)
    branch(lake, id, "dev")
    assert lake.data.insert_into_table(id, stream(rows(3, 2)), branch="dev").version == 2
    lake.data.delete_from_table(id, DeleteFromTableRequest(predicate="id = 0", branch="dev"))
    assert (count(lake, id), count(lake, id, on="dev"), count(lake, id, on="main")) == (2, 4, 2)
    assert lake.dataset(id).checkout_version(("dev", None)).count_rows() == 4
    assert lake.dataset(id).checkout_version(("dev", 2)).count_rows() == 5
    branch(lake, id, "trial", from_branch="dev", from_version=2)
    assert count(lake, id, on="trial") == 5
    tag(lake, id, "on-dev", 3, branch="dev")
    assert tagged(lake, id) == {"on-dev": (3, "dev")}
    assert lake.dataset(id, version="on-dev").count_rows() == 4
    branches = lake.branches.list_table_branches(id).branches
    assert {name: (each.parent_branch, each.parent_version) for name, each in branches.items()} == {
        "dev": (None, 1),
        "trial": ("dev", 2),
    }


def test_branches_that_clients_create_are_listed(lake: Lake) -> None:
    id = lake.table(2)
    created = lake.dataset(id).create_branch("theirs")
    created.insert(rows(1, 2))
    assert count(lake, id, on="theirs") == 3
    assert list(lake.branches.list_table_branches(id).branches) == ["theirs"]


def test_branches_that_are_taken_missing_or_misnamed_are_refused(lake: Lake) -> None:
    id = lake.table(2)
    branch(lake, id, "dev")
    with refused(409, 23):
        branch(lake, id, "dev")
    with refused(404, 22):
        branch(lake, id, "other", from_branch="nope")
    with refused(404, 11):
        branch(lake, id, "other", from_version=9)
    for name in ("main", "../x", "a//b", "/a", "a b"):
        with refused(400, 13):
            branch(lake, id, name)
    with refused(404, 22):
        lake.branches.delete_table_branch(id, DeleteTableBranchRequest(name="nope"))


@pytest.mark.parametrize("deleted_by", ["the catalog", "a client"])
def test_a_deleted_branch_can_be_created_again(lake: Lake, deleted_by: str) -> None:
    id = lake.table(2)
    branch(lake, id, "dev")
    lake.data.insert_into_table(id, stream(rows(3, 2)), branch="dev")
    if deleted_by == "the catalog":
        lake.branches.delete_table_branch(id, DeleteTableBranchRequest(name="dev"))
    else:
        lake.dataset(id).branches.delete("dev")
    assert lake.branches.list_table_branches(id).branches == {}
    with refused(404, 22):
        count(lake, id, on="dev")
    again = lake.dataset(id).create_branch("dev")
    again.insert(rows(1, 2))
    assert count(lake, id, on="dev") == 3
