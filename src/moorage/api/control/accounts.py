"""What users and service principals have in common: the principals that can log in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from moorage.api.control.scim import EXAMPLE_TIME, LIST_SCHEMA, PATCH_SCHEMA, ListQuery, Patch, edit_of
from moorage.api.errands import errand_of
from moorage.core.errors import InvalidInput
from moorage.core.principals import Principal
from moorage.core.securables import Kind, Securable
from moorage.http import Call, NoBody, NoQuery
from moorage.usecases.identity import principals
from moorage.usecases.identity.principals import Attribute, Edit
from moorage.usecases.ports import Ports

EXAMPLE_META = {"created": EXAMPLE_TIME, "lastModified": EXAMPLE_TIME}
EXAMPLE_PATCH = {"schemas": [PATCH_SCHEMA], "Operations": [{"op": "replace", "path": "active", "value": False}]}


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A principal to create, or its new description. `field` is the attribute that has the name."""

    kind: Kind
    field: str
    name: str | None
    display_name: str | UnsetType | None = UNSET
    external_id: str | None
    active: bool | None


def example_list(example: dict[str, Any]) -> dict[str, Any]:
    counts = {"totalResults": 1, "startIndex": 1, "itemsPerPage": 1}
    return {"schemas": [*LIST_SCHEMA], **counts, "Resources": [example]}


async def create(call: Call[Any, NoQuery], ports: Ports, account: Account) -> Securable:
    if account.name is None:
        raise InvalidInput(f"{account.field} is missing", field=account.field)
    details = Principal(
        active=account.active is not False,
        display_name=None if account.display_name is UNSET else account.display_name,
        external_id=account.external_id,
    )
    errand = errand_of(call, ports)
    return await principals.create(ports, errand, account.kind, account.name, details, field=account.field)


async def find(
    call: Call[NoBody, ListQuery], ports: Ports, kind: Kind, attributes: Mapping[str, Attribute]
) -> tuple[list[Securable], dict[str, Any]]:
    """The requested part of a list, and the numbers that describe it."""
    query = call.query
    found = await principals.list_principals(ports, call.caller, kind, query.selection(attributes))
    shown = found[query.start_index - 1 : query.start_index - 1 + query.count]
    return shown, {"total_results": len(found), "start_index": query.start_index, "items_per_page": len(shown)}


async def replace(call: Call[Any, NoQuery], ports: Ports, account: Account) -> Securable:
    change = Edit(
        name=account.name,
        name_field=account.field,
        active=account.active is not False,
        display_name=account.display_name,
        external_id=account.external_id,
    )
    return await principals.edit(ports, errand_of(call, ports), account.kind, call.params["id"], change)


async def patch(call: Call[Patch, NoQuery], ports: Ports, kind: Kind, *, name: str) -> Securable:
    change = edit_of(call.body, name)
    return await principals.edit(ports, errand_of(call, ports), kind, call.params["id"], change)
