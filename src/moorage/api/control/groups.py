"""Groups of principals."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

from moorage.api.control import accounts
from moorage.api.control.api import control
from moorage.api.control.scim import (
    COMMON_ATTRIBUTES,
    EXAMPLE_GROUP_ID,
    EXAMPLE_TIME,
    EXAMPLE_USER_ID,
    LIST_SCHEMA,
    PATCH_SCHEMA,
    ListQuery,
    Members,
    Name,
    Patch,
    Reference,
    ScimMeta,
    members_of_patch,
    meta_of,
)
from moorage.api.errands import errand_of
from moorage.core.errors import InvalidInput, NameTaken, NotEmpty, SecurableNotFound
from moorage.core.principals import Principal, principal_of
from moorage.core.securables import Kind, Securable
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.identity import principals
from moorage.usecases.identity.principals import Attribute
from moorage.usecases.ports import Ports

GROUP_SCHEMA = ("urn:ietf:params:scim:schemas:core:2.0:Group",)
_ATTRIBUTES = {"displayname": Attribute.NAME, **COMMON_ATTRIBUTES}
"""What filters may name."""

routes = control.section(tags=("groups",))


class NewGroup(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group, and its members by their ids."""

    display_name: Name
    members: list[Reference] = []
    external_id: str | None = None
    schemas: list[str] = field(default_factory=lambda: [*GROUP_SCHEMA])


class Group(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group with its direct members."""

    schemas: tuple[str, ...] = GROUP_SCHEMA
    id: str
    display_name: str
    external_id: str | UnsetType = UNSET
    members: list[Reference]
    groups: list[Reference]
    meta: ScimMeta


class GroupList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the list of groups. It does not show their members."""

    schemas: tuple[str, ...] = LIST_SCHEMA
    total_results: int
    start_index: int
    items_per_page: int
    resources: list[Group] = field(name="Resources")


def _to_wire(group: Securable, members: list[Securable]) -> Group:
    details = principal_of(group)
    return Group(
        id=group.id,
        display_name=group.name,
        external_id=UNSET if details.external_id is None else details.external_id,
        members=[Reference(value=member.id, display=member.name) for member in members],
        groups=[Reference(value=name, display=name) for name in details.groups],
        meta=meta_of(group, "Group"),
    )


async def _answer(call: Call[Any, Any], ports: Ports, group: Securable, status: int = 200) -> Answer:
    return Answer.json(_to_wire(group, await principals.members_of(ports, call.caller, group)), status=status)


_EXAMPLE: dict[str, Any] = {
    "schemas": [*GROUP_SCHEMA],
    "id": EXAMPLE_GROUP_ID,
    "displayName": "analysts",
    "members": [{"value": EXAMPLE_USER_ID, "display": "ann@example.com"}],
    "groups": [],
    "meta": {"resourceType": "Group", "created": EXAMPLE_TIME, "lastModified": EXAMPLE_TIME},
}
_NEW = {"displayName": "analysts", "members": [{"value": EXAMPLE_USER_ID}]}


@routes.post(
    "/scim2/Groups",
    operation="createGroup",
    summary="Create a group.",
    body=NewGroup,
    answer=Group,
    status=201,
    errors=(InvalidInput, NameTaken, SecurableNotFound),
    example=Example(body=_NEW, answer=_EXAMPLE),
)
async def create_group(call: Call[NewGroup, NoQuery], ports: Ports) -> Answer:
    """Create a group with its members. For administrators."""
    body = call.body
    errand = errand_of(call, ports)
    made = await principals.create_group(
        ports,
        errand,
        body.display_name,
        Principal(external_id=body.external_id),
        [member.value for member in body.members],
    )
    return await _answer(call, ports, made, 201)


@routes.get(
    "/scim2/Groups",
    operation="listGroups",
    summary="List groups.",
    query=ListQuery,
    answer=GroupList,
    errors=(InvalidInput,),
    example=Example(
        query={"filter": 'displayName eq "analysts"'},
        answer={
            "schemas": [*LIST_SCHEMA],
            "totalResults": 1,
            "startIndex": 1,
            "itemsPerPage": 1,
            "Resources": [_EXAMPLE | {"members": []}],
        },
    ),
)
async def list_groups(call: Call[NoBody, ListQuery], ports: Ports) -> Answer:
    """List groups in the order of their names, or find one by its name. For administrators."""
    shown, numbers = await accounts.find(call, ports, Kind.GROUP, _ATTRIBUTES)
    return Answer.json(GroupList(resources=[_to_wire(group, []) for group in shown], **numbers))


@routes.get(
    "/scim2/Groups/{id}",
    operation="getGroup",
    summary="Get a group.",
    answer=Group,
    errors=(SecurableNotFound,),
    example=Example(path={"id": EXAMPLE_GROUP_ID}, answer=_EXAMPLE),
)
async def get_group(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return a group with its direct members. For administrators."""
    return await _answer(call, ports, await principals.get(ports, call.caller, Kind.GROUP, call.params["id"]))


@routes.put(
    "/scim2/Groups/{id}",
    operation="replaceGroup",
    summary="Replace the members of a group.",
    body=NewGroup,
    answer=Group,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path={"id": EXAMPLE_GROUP_ID}, body=_NEW, answer=_EXAMPLE),
)
async def replace_group(call: Call[NewGroup, NoQuery], ports: Ports) -> Answer:
    """Replace all members of a group, or restore a deleted one. Its name cannot change. For administrators."""
    ids = tuple(each.value for each in call.body.members)
    return await _change(call, ports, Members(ids, replace=True, name=call.body.display_name), activates=True)


@routes.patch(
    "/scim2/Groups/{id}",
    operation="updateGroup",
    summary="Add or remove members of a group.",
    body=Patch,
    answer=Group,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(
        path={"id": EXAMPLE_GROUP_ID},
        body={
            "schemas": [PATCH_SCHEMA],
            "Operations": [{"op": "add", "path": "members", "value": [{"value": EXAMPLE_USER_ID}]}],
        },
        answer=_EXAMPLE,
    ),
)
async def update_group(call: Call[Patch, NoQuery], ports: Ports) -> Answer:
    """Add members to a group, or remove some. For administrators."""
    return await _change(call, ports, members_of_patch(call.body))


async def _change(call: Call[Any, NoQuery], ports: Ports, members: Members, *, activates: bool = False) -> Answer:
    group = await principals.change_members(
        ports,
        errand_of(call, ports),
        call.params["id"],
        add=members.add,
        remove=members.remove,
        replaces=members.replace,
        name=members.name,
        activates=activates,
    )
    return await _answer(call, ports, group)


@routes.delete(
    "/scim2/Groups/{id}",
    operation="deleteGroup",
    summary="Delete a group.",
    status=204,
    errors=(SecurableNotFound, NotEmpty),
    example=Example(path={"id": EXAMPLE_GROUP_ID}),
)
async def delete_group(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a group. What it was granted has no effect any more, and its name stays taken. For administrators."""
    await principals.delete(ports, errand_of(call, ports), Kind.GROUP, call.params["id"])
    return Answer.empty()
