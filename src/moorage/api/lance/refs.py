"""Routes of tags and branches."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_of
from moorage.api.lance.arrow import CHANGE_ERRORS, EXAMPLE_DATA, READ_ERRORS, Branch, branch_in
from moorage.api.lance.bodies import Count, Named, Properties
from moorage.api.lance.namespaces import Paging
from moorage.core.errors import KeyReused, NameTaken
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.lance import refs as lance_refs
from moorage.usecases.ports import Ports

routes = lance.section(tags=("refs",))

RefName = Annotated[str, Meta(min_length=1, max_length=255)]


class RefChanged(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The transaction of the change. Tags are files beside the data, not ledger entries, so they have none."""

    transaction_id: str | None = None


class CreateTableTagRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The tag to create, and its version."""

    tag: RefName
    version: Count
    branch: Branch = None


class UpdateTableTagRequest(CreateTableTagRequest, frozen=True, kw_only=True, omit_defaults=True):
    """The tag to update, and its new version."""


@routes.post(
    "/v1/table/{id}/tags/create",
    operation="CreateTableTag",
    summary="Create a tag.",
    body=CreateTableTagRequest,
    answer=RefChanged,
    errors=(NameTaken, KeyReused, *READ_ERRORS),
    example=Example(path=EXAMPLE_DATA, body={"tag": "silver", "version": 1}, answer={}),
)
async def create_table_tag(call: Call[CreateTableTagRequest, Delimited], ports: Ports) -> Answer:
    """Create a tag for a version. The version cannot be deleted while the tag exists."""
    body = call.body
    await lance_refs.create_tag(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body.tag,
        branch=branch_in(body.branch),
        version=body.version,
    )
    return Answer.json(RefChanged())


@routes.post(
    "/v1/table/{id}/tags/update",
    operation="UpdateTableTag",
    summary="Update a tag.",
    body=UpdateTableTagRequest,
    answer=RefChanged,
    errors=(KeyReused, *READ_ERRORS),
    example=Example(path=EXAMPLE_DATA, body={"tag": "gold", "version": 1}, answer={}),
)
async def update_table_tag(call: Call[UpdateTableTagRequest, Delimited], ports: Ports) -> Answer:
    """Point a tag at another version."""
    body = call.body
    await lance_refs.update_tag(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body.tag,
        branch=branch_in(body.branch),
        version=body.version,
    )
    return Answer.json(RefChanged())


class DeleteTableTagRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The tag to delete."""

    tag: RefName


class GetTableTagVersionRequest(DeleteTableTagRequest, frozen=True, kw_only=True, omit_defaults=True):
    """The tag to look up."""


@routes.post(
    "/v1/table/{id}/tags/delete",
    operation="DeleteTableTag",
    summary="Delete a tag.",
    body=DeleteTableTagRequest,
    answer=RefChanged,
    errors=(KeyReused, *READ_ERRORS),
    example=Example(path=EXAMPLE_DATA, body={"tag": "gold"}, answer={}),
)
async def delete_table_tag(call: Call[DeleteTableTagRequest, Delimited], ports: Ports) -> Answer:
    """Delete a tag. Its version stays."""
    await lance_refs.delete_tag(ports, errand_of(call, ports), table_of(call, call.body.id), call.body.tag)
    return Answer.json(RefChanged())


class GetTableTagVersionResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The version that a tag names."""

    version: Count
    branch: str | None = None


@routes.post(
    "/v1/table/{id}/tags/version",
    operation="GetTableTagVersion",
    summary="Get the version of a tag.",
    body=GetTableTagVersionRequest,
    answer=GetTableTagVersionResponse,
    mutation=False,
    errors=READ_ERRORS,
    example=Example(path=EXAMPLE_DATA, body={"tag": "gold"}, answer={"version": 1}),
)
async def get_table_tag_version(call: Call[GetTableTagVersionRequest, Delimited], ports: Ports) -> Answer:
    """Get the version that a tag names."""
    found = await lance_refs.get_tag(ports, errand_of(call, ports), table_of(call, call.body.id), call.body.tag)
    return Answer.json(GetTableTagVersionResponse(version=found.version, branch=found.branch))


class TagContents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The version that a tag names."""

    version: Count
    manifest_size: Count
    branch: str | None = None


class ListTableTagsResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tags by name."""

    tags: dict[str, TagContents]
    page_token: str | None = None


@routes.post(
    "/v1/table/{id}/tags/list",
    operation="ListTableTags",
    summary="List tags.",
    query=Paging,
    answer=ListTableTagsResponse,
    mutation=False,
    errors=READ_ERRORS,
    example=Example(
        path=EXAMPLE_DATA, query={"limit": 10}, answer={"tags": {"gold": {"version": 1, "manifestSize": 436}}}
    ),
)
async def list_table_tags(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the tags of a table, including those that clients created without the catalog."""
    tags, token = await lance_refs.list_tags(
        ports, errand_of(call, ports), table_of(call), token=call.query.page_token, limit=call.query.size
    )
    return Answer.json({"tags": tags, **({} if token is None else {"page_token": token})})


class CreateTableBranchRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The branch to create, and the version with which it begins."""

    name: RefName
    from_branch: Branch = None
    from_version: Count | None = None


@routes.post(
    "/v1/table/{id}/branches/create",
    operation="CreateTableBranch",
    summary="Create a branch.",
    body=CreateTableBranchRequest,
    answer=RefChanged,
    errors=(NameTaken, *CHANGE_ERRORS),
    example=Example(path=EXAMPLE_DATA, body={"name": "trial", "from_version": 1}, answer={"transaction_id": "8"}),
)
async def create_table_branch(call: Call[CreateTableBranchRequest, Delimited], ports: Ports) -> Answer:
    """Create a branch that begins with a version of the main line or of another branch."""
    body = call.body
    transaction = await lance_refs.create_branch(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        body.name,
        branch=branch_in(body.from_branch),
        version=body.from_version,
    )
    return Answer.json(RefChanged(transaction_id=transaction))


class DeleteTableBranchRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The branch to delete."""

    name: RefName


@routes.post(
    "/v1/table/{id}/branches/delete",
    operation="DeleteTableBranch",
    summary="Delete a branch.",
    body=DeleteTableBranchRequest,
    answer=RefChanged,
    errors=CHANGE_ERRORS,
    example=Example(path=EXAMPLE_DATA, body={"name": "dev"}, answer={"transaction_id": "8"}),
)
async def delete_table_branch(call: Call[DeleteTableBranchRequest, Delimited], ports: Ports) -> Answer:
    """Delete a branch, with the files that only it has. A new branch can have its name."""
    body = call.body
    transaction = await lance_refs.delete_branch(ports, errand_of(call, ports), table_of(call, body.id), body.name)
    return Answer.json(RefChanged(transaction_id=transaction))


class BranchContents(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The version with which a branch began."""

    parent_version: Count
    create_at: Annotated[int, Meta(ge=0, le=2**63 - 1, description="In seconds since the Unix epoch.")]
    manifest_size: Count
    parent_branch: str | None = None
    metadata: Properties = {}


class ListTableBranchesResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Branches by name."""

    branches: dict[str, BranchContents]
    page_token: str | None = None


@routes.post(
    "/v1/table/{id}/branches/list",
    operation="ListTableBranches",
    summary="List branches.",
    query=Paging,
    answer=ListTableBranchesResponse,
    mutation=False,
    errors=READ_ERRORS,
    example=Example(
        path=EXAMPLE_DATA,
        query={"limit": 10},
        answer={"branches": {"dev": {"parentVersion": 1, "createAt": 1763000000, "manifestSize": 436}}},
    ),
)
async def list_table_branches(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the branches of a table, including those that clients created without the catalog. Main is not listed."""
    branches, token = await lance_refs.list_branches(
        ports, errand_of(call, ports), table_of(call), token=call.query.page_token, limit=call.query.size
    )
    return Answer.json({"branches": branches, **({} if token is None else {"page_token": token})})
