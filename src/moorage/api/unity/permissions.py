"""Grants on objects, and who holds which privilege for which reason."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from moorage.api.errands import errand_of
from moorage.api.unity.api import unity
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, SecurableNotFound, TableNotFound
from moorage.core.names import require_path
from moorage.core.securables import Grants, Kind
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog.addresses import IN_METASTORE, Address
from moorage.usecases.identity import grants
from moorage.usecases.identity.grants import GrantChange
from moorage.usecases.ports import Ports

routes = unity.section(tags=("grants",))

_KINDS = {
    "metastore": Kind.METASTORE,
    "catalog": Kind.CATALOG,
    "schema": Kind.NAMESPACE,
    "table": Kind.TABLE,
    "volume": Kind.VOLUME,
    "function": Kind.FUNCTION,
    "registered_model": Kind.MODEL,
    "pipeline": Kind.PIPELINE,
    "credential": Kind.CREDENTIAL,
    "external_location": Kind.EXTERNAL_LOCATION,
    "share": Kind.SHARE,
    "recipient": Kind.RECIPIENT,
}
_TYPES = {kind: name for name, kind in _KINDS.items()} | {Kind.VIEW: "table"}
_ERRORS = (InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound, SecurableNotFound)

Principal = Annotated[str, Meta(min_length=1, max_length=255, description="A user, service principal or group.")]
PrivilegeName = Annotated[str, Meta(max_length=64, description="A privilege, such as `SELECT` or `USE CATALOG`.")]


class PrincipalPrivileges(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges of a principal on an object."""

    principal: str
    privileges: list[PrivilegeName]


class GrantsList(msgspec.Struct, frozen=True, kw_only=True):
    """The grants on an object."""

    privilege_assignments: list[PrincipalPrivileges]


class GrantsChange(msgspec.Struct, frozen=True, kw_only=True):
    """What one principal is granted, and what is revoked from it."""

    principal: Principal
    add: list[PrivilegeName] | None = None
    remove: list[PrivilegeName] | None = None


class UpdateGrants(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of the grants on an object."""

    changes: Annotated[list[GrantsChange], Meta(max_length=1000)]


class PermissionsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose grants are listed."""

    principal: Annotated[Principal | UnsetType, Meta(description="Only the grants of this principal.")] = UNSET


class EffectivePrivilege(msgspec.Struct, frozen=True, kw_only=True):
    """A privilege, and the object on which it is granted if that is not the object itself."""

    privilege: PrivilegeName
    inherited_from_type: str | UnsetType = UNSET
    inherited_from_name: str | UnsetType = UNSET


class EffectiveAssignment(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges that a principal has on an object."""

    principal: str
    privileges: list[EffectivePrivilege]


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of the object or of one of its ancestors."""

    principal: str
    type: str
    name: str


class EffectivePermissionsList(msgspec.Struct, frozen=True, kw_only=True):
    """The grants that hold on an object, and the owners, who may do everything."""

    privilege_assignments: list[EffectiveAssignment]
    owners: list[Owner]


def _target(call: Call[Any, Any]) -> Address | None:
    """The object that the path names; None for the metastore, whatever its name is given as."""
    kind = _KINDS.get(call.params["securable_type"].lower())
    if kind is None:
        raise InvalidInput(f"securable_type is one of {', '.join(_KINDS)}", field="securable_type")
    if kind is Kind.METASTORE:
        return None
    full_name = call.params["full_name"]
    levels = 1 if kind in IN_METASTORE else {Kind.CATALOG: 1, Kind.NAMESPACE: 2}.get(kind, 3)
    path = tuple(full_name.split(".")) if levels > 1 else (full_name,)
    if len(path) < levels:  # more: a namespace in a namespace, which only other APIs can create
        raise InvalidInput(f"full_name {full_name!r} has fewer than {levels} names", field="full_name")
    return Address(kind, require_path(path, "full_name"))


def _to_wire(found: Grants) -> GrantsList:
    return GrantsList(
        privilege_assignments=[
            PrincipalPrivileges(principal=name, privileges=list(held)) for name, held in found.items()
        ]
    )


_PATH = {"securable_type": "table", "full_name": "sample.sales.orders"}
_EXAMPLE = {"privilege_assignments": [{"principal": "analysts", "privileges": ["SELECT"]}]}


@routes.get(
    "/permissions/{securable_type}/{full_name}",
    operation="getPermissions",
    summary="List the grants on an object.",
    query=PermissionsQuery,
    answer=GrantsList,
    errors=_ERRORS,
    example=Example(path=_PATH, answer=_EXAMPLE),
)
async def get_permissions(call: Call[NoBody, PermissionsQuery], ports: Ports) -> Answer:
    """List the grants on an object. Callers that do not manage it see their own grants and those of their groups."""
    principal = call.query.principal
    found = await grants.grants_on(
        ports, call.caller, _target(call), principal=None if principal is UNSET else principal
    )
    return Answer.json(_to_wire(found))


@routes.patch(
    "/permissions/{securable_type}/{full_name}",
    operation="updatePermissions",
    summary="Grant and revoke privileges.",
    body=UpdateGrants,
    answer=GrantsList,
    errors=_ERRORS,
    example=Example(
        path=_PATH, body={"changes": [{"principal": "analysts", "add": ["SELECT"], "remove": []}]}, answer=_EXAMPLE
    ),
)
async def update_permissions(call: Call[UpdateGrants, NoQuery], ports: Ports) -> Answer:
    """Grant privileges on an object and revoke others, in one step. For its owners, and for those who manage it."""
    changes = [
        GrantChange(principal=each.principal, add=tuple(each.add or ()), remove=tuple(each.remove or ()))
        for each in call.body.changes
    ]
    return Answer.json(_to_wire(await grants.change_grants(ports, errand_of(call, ports), _target(call), changes)))


@routes.get(
    "/effective-permissions/{securable_type}/{full_name}",
    operation="getEffectivePermissions",
    summary="List the grants that hold on an object.",
    query=PermissionsQuery,
    answer=EffectivePermissionsList,
    errors=_ERRORS,
    example=Example(
        path=_PATH,
        answer={
            "privilege_assignments": [
                {
                    "principal": "analysts",
                    "privileges": [
                        {"privilege": "SELECT"},
                        {
                            "privilege": "BROWSE",
                            "inherited_from_type": "catalog",
                            "inherited_from_name": "sample",
                        },
                    ],
                }
            ],
            "owners": [
                {"principal": "admins", "type": "metastore", "name": "moorage"},
                {"principal": "ann@example.com", "type": "catalog", "name": "sample"},
            ],
        },
    ),
)
async def get_effective_permissions(call: Call[NoBody, PermissionsQuery], ports: Ports) -> Answer:
    """List the grants that hold on an object, with the objects that it inherits them from."""
    principal = call.query.principal
    found, chain = await grants.effective_on(
        ports, call.caller, _target(call), principal=None if principal is UNSET else principal
    )
    held: dict[str, list[EffectivePrivilege]] = {}
    for each in found:
        shown = EffectivePrivilege(
            privilege=each.privilege,
            inherited_from_type=UNSET if each.is_own else _TYPES[each.origin.kind],
            inherited_from_name=UNSET if each.is_own else each.origin_name,
        )
        held.setdefault(each.principal, []).append(shown)
    return Answer.json(
        EffectivePermissionsList(
            privilege_assignments=[
                EffectiveAssignment(principal=name, privileges=privileges) for name, privileges in held.items()
            ],
            owners=[
                Owner(
                    principal=each.owner,
                    type=_TYPES[each.kind],
                    name=".".join(part.name for part in chain[1 : depth + 1]) or each.name,
                )
                for depth, each in enumerate(chain)
            ],
        )
    )
