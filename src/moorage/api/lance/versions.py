"""Routes of table versions."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_of
from moorage.api.lance.bodies import (
    EXAMPLE_ID,
    EXAMPLE_TABLE,
    BatchDeleteTableVersionsRequest,
    BatchDeleteTableVersionsResponse,
    CreateTableVersionRequest,
    CreateTableVersionResponse,
    DescribeTableVersionRequest,
    DescribeTableVersionResponse,
    ListTableVersionsResponse,
    TableVersion,
)
from moorage.api.lance.namespaces import Paging
from moorage.api.lance.tables import MISSING_TABLE
from moorage.core.errors import InvalidInput, RequirementFailed, SecurableNotFound, VersionNotFound, VersionTaken
from moorage.formats.lance.manifests import NamingScheme, require_branch
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.lance import deletions as lance_deletions
from moorage.usecases.lance import versions as lance_versions
from moorage.usecases.lance.versions import NewVersion
from moorage.usecases.ports import Ports

routes = lance.section(tags=("versions",))

EXAMPLE_FOLDER = f"var/lib/moorage/managed/tables/{EXAMPLE_ID}/_versions/"
EXAMPLE_VERSION: dict[str, Any] = {
    "version": 1,
    "manifest_path": f"{EXAMPLE_FOLDER}18446744073709551614.manifest",
    "manifest_size": 436,
    "timestamp_millis": 1763000000000,
    "naming_scheme": "V2",
}
EXAMPLE_STAGED = {
    "version": 1,
    "manifest_path": EXAMPLE_VERSION["manifest_path"],
    "manifest_size": 436,
    "naming_scheme": "V2",
}


class VersionsQuery(Paging, frozen=True, kw_only=True):
    """Which versions to list, in which order, and the page of the list."""

    branch: Annotated[str | None, Meta(description="The branch. The default is the main line.")] = None
    descending: Annotated[bool, Meta(description="From the newest to the oldest.")] = False


def new_version(body: CreateTableVersionRequest) -> NewVersion:
    return NewVersion(
        version=body.version,
        manifest_path=body.manifest_path,
        manifest_size=body.manifest_size,
        e_tag=body.e_tag,
        metadata=body.metadata,
        scheme=_scheme(body.naming_scheme),
        ref=require_branch(body.branch),
    )


def _scheme(text: str | None) -> NamingScheme | None:
    if text is None:
        return None
    try:
        return NamingScheme(text.upper())
    except ValueError:
        raise InvalidInput(f"naming_scheme: {text!r} is neither V1 nor V2", field="naming_scheme") from None


def ranges_of(body: BatchDeleteTableVersionsRequest) -> tuple[tuple[int, int], ...]:
    return tuple((each.start_version, each.end_version) for each in body.ranges)


def to_wire(found: lance_versions.TableVersion) -> TableVersion:
    return TableVersion(
        version=found.version,
        manifest_path=found.manifest_path,
        manifest_size=found.manifest_size,
        e_tag=found.e_tag,
        timestamp_millis=found.timestamp_ms,
        metadata=found.metadata,
        naming_scheme=found.scheme,
    )


@routes.post(
    "/v1/table/{id}/version/create",
    operation="CreateTableVersion",
    summary="Create a version of a table.",
    body=CreateTableVersionRequest,
    answer=CreateTableVersionResponse,
    errors=(InvalidInput, VersionTaken, *MISSING_TABLE),
    example=Example(
        path=EXAMPLE_TABLE,
        body=EXAMPLE_STAGED,
        answer={"transaction_id": "7", "version": EXAMPLE_VERSION},
    ),
)
async def create_table_version(call: Call[CreateTableVersionRequest, Delimited], ports: Ports) -> Answer:
    """Make a staged manifest the next version. A version that already exists is refused, unless this is a retry."""
    made = await lance_versions.create_version(
        ports, errand_of(call, ports), table_of(call, call.body.id), new_version(call.body)
    )
    transaction = None if made.seq is None else str(made.seq)
    return Answer.json(CreateTableVersionResponse(transaction_id=transaction, version=to_wire(made)))


@routes.post(
    "/v1/table/{id}/version/describe",
    operation="DescribeTableVersion",
    summary="Describe a version of a table.",
    body=DescribeTableVersionRequest,
    body_required=False,
    answer=DescribeTableVersionResponse,
    mutation=False,
    errors=(InvalidInput, SecurableNotFound, VersionNotFound, *MISSING_TABLE),
    example=Example(path=EXAMPLE_TABLE, body={"version": 1}, answer={"version": EXAMPLE_VERSION}),
)
async def describe_table_version(call: Call[DescribeTableVersionRequest, Delimited], ports: Ports) -> Answer:
    """Get a version and the path of its manifest."""
    found = await lance_versions.describe_version(
        ports, call.caller, table_of(call, call.body.id), require_branch(call.body.branch), call.body.version
    )
    return Answer.json(DescribeTableVersionResponse(version=to_wire(found)))


@routes.post(
    "/v1/table/{id}/version/list",
    operation="ListTableVersions",
    summary="List versions of a table.",
    query=VersionsQuery,
    answer=ListTableVersionsResponse,
    mutation=False,
    errors=(InvalidInput, SecurableNotFound, *MISSING_TABLE),
    example=Example(path=EXAMPLE_TABLE, query={"limit": 1, "descending": True}, answer={"versions": [EXAMPLE_VERSION]}),
)
async def list_table_versions(call: Call[NoBody, VersionsQuery], ports: Ports) -> Answer:
    """List the versions of a table or branch. A table that was only declared has none."""
    found, token = await lance_versions.list_versions(
        ports,
        call.caller,
        table_of(call),
        require_branch(call.query.branch),
        token=call.query.page_token,
        limit=call.query.size,
        descending=call.query.descending,
    )
    return Answer.json(ListTableVersionsResponse(versions=list(map(to_wire, found)), page_token=token))


@routes.post(
    "/v1/table/{id}/version/delete",
    operation="BatchDeleteTableVersions",
    summary="Delete versions of a table.",
    body=BatchDeleteTableVersionsRequest,
    answer=BatchDeleteTableVersionsResponse,
    errors=(InvalidInput, RequirementFailed, SecurableNotFound, *MISSING_TABLE),
    example=Example(
        path=EXAMPLE_TABLE,
        body={"ranges": [{"start_version": 0, "end_version": 1}]},
        answer={"deleted_count": 0},
    ),
)
async def batch_delete_table_versions(call: Call[BatchDeleteTableVersionsRequest, Delimited], ports: Ports) -> Answer:
    """Delete the records of versions. Their numbers are never reused, and upkeep deletes their files."""
    deleted = await lance_deletions.delete_versions(
        ports,
        errand_of(call, ports),
        table_of(call, call.body.id),
        require_branch(call.body.branch),
        ranges_of(call.body),
    )
    transaction = None if deleted.seq is None else str(deleted.seq)
    return Answer.json(BatchDeleteTableVersionsResponse(deleted_count=deleted.count, transaction_id=transaction))
