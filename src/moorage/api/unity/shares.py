"""Shares, and the recipients that may read them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.api.unity.shapes import EXAMPLE_ID, EXAMPLE_STAMPS, NOTHING, Nothing, Paging
from moorage.api.unity.share_bodies import (
    CreateShare,
    ListSharesResponse,
    ShareInfo,
    UpdateShare,
    share_info,
    shared_data_object,
)
from moorage.core.errors import (
    CatalogNotFound,
    InvalidInput,
    NamespaceNotFound,
    NameTaken,
    SecurableNotFound,
    TableNotFound,
    Unsupported,
)
from moorage.core.securables import Shelf
from moorage.core.shares import require_share_name
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import browse, objects
from moorage.usecases.catalog.addresses import share
from moorage.usecases.ports import Ports
from moorage.usecases.sharing import permissions, shares
from moorage.usecases.sharing.permissions import GrantChange

routes = unity.section(tags=("shares",))

SELECT = "SELECT"


class ShareQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a share to return."""

    include_shared_data: Annotated[bool, Meta(description="Return the objects of the share too.")] = False


class PermissionsChange(msgspec.Struct, frozen=True, kw_only=True):
    """Privileges to add for a recipient, and to remove. The only privilege on a share is SELECT."""

    principal: Annotated[str, Meta(description="The name of the recipient.")]
    add: list[str] | None = None
    remove: list[str] | None = None

    def grant_change(self) -> GrantChange:
        for field, privileges in (("add", self.add), ("remove", self.remove)):
            wrong = next((each for each in privileges or () if each.upper() != SELECT), None)
            if wrong is not None:
                raise InvalidInput(f"{field}: {wrong!r} is not a privilege on a share; use {SELECT}", field=field)
        if bool(self.add) == bool(self.remove):
            raise InvalidInput(f"a change of '{self.principal}' must either add or remove {SELECT}", field="changes")
        return GrantChange(recipient=self.principal, grant=bool(self.add))


class UpdateSharePermissions(msgspec.Struct, frozen=True, kw_only=True):
    """The recipients to grant the share to, and those to revoke it from, all in one step."""

    changes: list[PermissionsChange] | None = None


class PrivilegeAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges of one recipient on a share."""

    principal: str
    privileges: list[str]


class SharePermissions(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the recipients of a share. Without a token it is the last page."""

    privilege_assignments: list[PrivilegeAssignment]
    next_page_token: str | None


_EXAMPLE: dict[str, Any] = {
    "name": "quarterly",
    "id": EXAMPLE_ID,
    "comment": "Figures for partners.",
    "display_name": "Quarterly figures",
    "properties": {"team": "sales"},
    "objects": None,
    **EXAMPLE_STAMPS,
}
_OBJECT: dict[str, Any] = {
    "name": "sample.sales.lent",
    "data_object_type": "TABLE",
    "shared_as": "sales.lent",
    "comment": None,
    "added_at": 1794737732278,
    "added_by": "local",
    "history_data_sharing_status": "ENABLED",
    "cdf_enabled": True,
    "partitions": [],
    "start_version": None,
    "status": "ACTIVE",
}
_QUARTERLY = {"name": "quarterly"}
_ASSIGNED = {"privilege_assignments": [{"principal": "partner", "privileges": [SELECT]}], "next_page_token": None}


@routes.post(
    "/shares",
    operation="createShare",
    summary="Create a share.",
    body=CreateShare,
    answer=ShareInfo,
    errors=(InvalidInput, NameTaken),
    example=Example(body={"name": "figures", "comment": "For partners."}, answer=_EXAMPLE | {"name": "figures"}),
)
async def create_share(call: Call[CreateShare, NoQuery], ports: Ports) -> Answer:
    """Create a share. It is empty, and no recipient can read it yet."""
    name = require_share_name(call.body.name)
    return Answer.json(share_info(await shares.create_share(ports, errand_of(call, ports), name, call.body.doc())))


@routes.get(
    "/shares",
    operation="listShares",
    summary="List shares.",
    query=Paging,
    answer=ListSharesResponse,
    errors=(InvalidInput,),
    example=Example(answer={"shares": [_EXAMPLE], "next_page_token": None}),
)
async def list_shares(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the shares, ordered by name, without their objects."""
    query = call.query
    page = await browse.page(ports, call.caller, None, Shelf.SHARE, token=query.page_token, limit=query.limit)
    found = [share_info(item) for item in page.items]
    return Answer.json(ListSharesResponse(shares=found, next_page_token=page.next_token))


@routes.get(
    "/shares/{name}",
    operation="getShare",
    summary="Get a share.",
    query=ShareQuery,
    answer=ShareInfo,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_QUARTERLY, query={"include_shared_data": True}, answer=_EXAMPLE | {"objects": [_OBJECT]}),
)
async def get_share(call: Call[NoBody, ShareQuery], ports: Ports) -> Answer:
    """Return one share."""
    name = call.params["name"]
    found = (await browse.get(ports, call.caller, share(name)))[-1]
    listed = await shares.objects_of(ports, call.caller, name) if call.query.include_shared_data else None
    return Answer.json(share_info(found, None if listed is None else [shared_data_object(each) for each in listed]))


@routes.patch(
    "/shares/{name}",
    operation="updateShare",
    summary="Update a share.",
    body=UpdateShare,
    answer=ShareInfo,
    errors=(
        InvalidInput,
        Unsupported,
        SecurableNotFound,
        CatalogNotFound,
        NamespaceNotFound,
        TableNotFound,
        NameTaken,
    ),
    example=Example(
        path=_QUARTERLY,
        body={
            "updates": [
                {
                    "action": "ADD",
                    "data_object": {
                        "name": "sample.sales.lent",
                        "data_object_type": "TABLE",
                        "shared_as": "figures.lent",
                        "history_data_sharing_status": "ENABLED",
                    },
                }
            ]
        },
        answer=_EXAMPLE | {"objects": [_OBJECT | {"shared_as": "figures.lent"}]},
    ),
)
async def update_share(call: Call[UpdateShare, NoQuery], ports: Ports) -> Answer:
    """Change a share and add, change and remove its objects, all in one step.

    A table is shared under the name `shared_as`, or its own name without the catalog. A schema is shared with all its
    tables, including those created later. Recipients see the change with their next request.
    """
    body = call.body
    updates = [each.update() for each in body.updates or ()]
    after = await shares.change_share(ports, errand_of(call, ports), call.params["name"], body.revision(), updates)
    listed = await shares.objects_of(ports, call.caller, after.name)
    return Answer.json(share_info(after, [shared_data_object(each) for each in listed]))


@routes.delete(
    "/shares/{name}",
    operation="deleteShare",
    summary="Delete a share.",
    answer=Nothing,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_QUARTERLY, answer={}),
)
async def delete_share(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a share. Its recipients can no longer read it; the tables in it stay as they are."""
    await objects.drop(ports, errand_of(call, ports), share(call.params["name"]))
    return Answer.json(NOTHING)


@routes.get(
    "/shares/{name}/permissions",
    operation="getSharePermissions",
    summary="Get the recipients of a share.",
    query=Paging,
    answer=SharePermissions,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_QUARTERLY, answer=_ASSIGNED),
)
async def get_share_permissions(call: Call[NoBody, Paging], ports: Ports) -> Answer:
    """List the recipients that may read a share, ordered by name."""
    query = call.query
    page = await permissions.page_recipients(
        ports, call.caller, call.params["name"], token=query.page_token, limit=query.limit
    )
    found = [PrivilegeAssignment(principal=each.name, privileges=[SELECT]) for each in page.recipients]
    return Answer.json(SharePermissions(privilege_assignments=found, next_page_token=page.next_token))


@routes.patch(
    "/shares/{name}/permissions",
    operation="updateSharePermissions",
    summary="Grant or revoke a share.",
    body=UpdateSharePermissions,
    answer=SharePermissions,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path=_QUARTERLY, body={"changes": [{"principal": "partner", "add": [SELECT]}]}, answer=_ASSIGNED),
)
async def update_share_permissions(call: Call[UpdateSharePermissions, NoQuery], ports: Ports) -> Answer:
    """Grant a share to recipients and revoke it from others. A revocation takes effect with the next request."""
    name = call.params["name"]
    changes = [each.grant_change() for each in call.body.changes or ()]
    await permissions.change_permissions(ports, errand_of(call, ports), name, changes)
    page = await permissions.page_recipients(ports, call.caller, name, token=None, limit=Paging().limit)
    found = [PrivilegeAssignment(principal=each.name, privileges=[SELECT]) for each in page.recipients]
    return Answer.json(SharePermissions(privilege_assignments=found, next_page_token=page.next_token))
