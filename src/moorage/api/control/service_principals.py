"""Service principals: programs that use the catalog."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

from moorage.api.control import accounts
from moorage.api.control.accounts import EXAMPLE_META, EXAMPLE_PATCH, Account, example_list
from moorage.api.control.api import control
from moorage.api.control.scim import (
    COMMON_ATTRIBUTES,
    EXAMPLE_SERVICE_ID,
    LIST_SCHEMA,
    ListQuery,
    Name,
    Patch,
    Reference,
    ScimMeta,
    meta_of,
)
from moorage.api.errands import errand_of
from moorage.core.errors import InvalidInput, NameTaken, SecurableNotFound
from moorage.core.principals import principal_of
from moorage.core.securables import Kind, Securable
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.identity import principals
from moorage.usecases.identity.principals import Attribute
from moorage.usecases.ports import Ports

SERVICE_SCHEMA = ("urn:databricks:params:scim:schemas:workspace:2.0:ServicePrincipal",)
_ATTRIBUTES = {"displayname": Attribute.NAME, "applicationid": Attribute.ID, **COMMON_ATTRIBUTES}
"""What filters may name."""

routes = control.section(tags=("service principals",))


class NewServicePrincipal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service principal. Its name in grants is `displayName`."""

    display_name: Name
    external_id: str | None = None
    active: bool | None = None
    schemas: list[str] = field(default_factory=lambda: [*SERVICE_SCHEMA])

    @property
    def account(self) -> Account:
        return Account(
            kind=Kind.SERVICE_PRINCIPAL,
            field="displayName",
            name=self.display_name,
            external_id=self.external_id,
            active=self.active,
        )


class ServicePrincipal(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A service principal."""

    schemas: tuple[str, ...] = SERVICE_SCHEMA
    id: str
    application_id: str
    display_name: str
    external_id: str | UnsetType = UNSET
    active: bool
    groups: list[Reference]
    meta: ScimMeta


class ServicePrincipalList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the list of service principals."""

    schemas: tuple[str, ...] = LIST_SCHEMA
    total_results: int
    start_index: int
    items_per_page: int
    resources: list[ServicePrincipal] = field(name="Resources")


def _to_wire(securable: Securable) -> ServicePrincipal:
    details = principal_of(securable)
    return ServicePrincipal(
        id=securable.id,
        application_id=securable.id,
        display_name=securable.name,
        external_id=UNSET if details.external_id is None else details.external_id,
        active=details.active,
        groups=[Reference(value=group, display=group) for group in details.groups],
        meta=meta_of(securable, "ServicePrincipal"),
    )


_EXAMPLE: dict[str, Any] = {
    "schemas": [*SERVICE_SCHEMA],
    "id": EXAMPLE_SERVICE_ID,
    "applicationId": EXAMPLE_SERVICE_ID,
    "displayName": "loader",
    "active": True,
    "groups": [],
    "meta": {"resourceType": "ServicePrincipal", **EXAMPLE_META},
}

_NEW = {"displayName": "loader"}


@routes.post(
    "/scim2/ServicePrincipals",
    operation="createServicePrincipal",
    summary="Create a service principal.",
    body=NewServicePrincipal,
    answer=ServicePrincipal,
    status=201,
    errors=(InvalidInput, NameTaken),
    example=Example(body=_NEW, answer=_EXAMPLE),
)
async def create(call: Call[NewServicePrincipal, NoQuery], ports: Ports) -> Answer:
    """Create a service principal. It can log in as soon as it has a token. For administrators."""
    return Answer.json(_to_wire(await accounts.create(call, ports, call.body.account)), status=201)


@routes.get(
    "/scim2/ServicePrincipals",
    operation="listServicePrincipals",
    summary="List service principals.",
    query=ListQuery,
    answer=ServicePrincipalList,
    errors=(InvalidInput,),
    example=Example(query={"filter": 'displayName eq "loader"'}, answer=example_list(_EXAMPLE)),
)
async def list_all(call: Call[NoBody, ListQuery], ports: Ports) -> Answer:
    """List service principals in the order of their names, or find one by its name. For administrators."""
    shown, numbers = await accounts.find(call, ports, Kind.SERVICE_PRINCIPAL, _ATTRIBUTES)
    return Answer.json(ServicePrincipalList(resources=[_to_wire(each) for each in shown], **numbers))


@routes.get(
    "/scim2/ServicePrincipals/{id}",
    operation="getServicePrincipal",
    summary="Get a service principal.",
    answer=ServicePrincipal,
    errors=(SecurableNotFound,),
    example=Example(path={"id": EXAMPLE_SERVICE_ID}, answer=_EXAMPLE),
)
async def get(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one service principal. For administrators."""
    return Answer.json(_to_wire(await principals.get(ports, call.caller, Kind.SERVICE_PRINCIPAL, call.params["id"])))


@routes.put(
    "/scim2/ServicePrincipals/{id}",
    operation="replaceServicePrincipal",
    summary="Replace a service principal.",
    body=NewServicePrincipal,
    answer=ServicePrincipal,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path={"id": EXAMPLE_SERVICE_ID}, body=_NEW, answer=_EXAMPLE),
)
async def replace(call: Call[NewServicePrincipal, NoQuery], ports: Ports) -> Answer:
    """Change the description of a service principal, or activate it again. Its name cannot change."""
    return Answer.json(_to_wire(await accounts.replace(call, ports, call.body.account)))


@routes.patch(
    "/scim2/ServicePrincipals/{id}",
    operation="updateServicePrincipal",
    summary="Update a service principal.",
    body=Patch,
    answer=ServicePrincipal,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path={"id": EXAMPLE_SERVICE_ID}, body=EXAMPLE_PATCH, answer=_EXAMPLE | {"active": False}),
)
async def update(call: Call[Patch, NoQuery], ports: Ports) -> Answer:
    """Change the description of a service principal, or whether it is active. For administrators."""
    return Answer.json(_to_wire(await accounts.patch(call, ports, Kind.SERVICE_PRINCIPAL, name="displayName")))


@routes.delete(
    "/scim2/ServicePrincipals/{id}",
    operation="deleteServicePrincipal",
    summary="Delete a service principal.",
    status=204,
    errors=(SecurableNotFound,),
    example=Example(path={"id": EXAMPLE_SERVICE_ID}),
)
async def delete(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a service principal and revoke its tokens. Its name stays taken. For administrators."""
    await principals.delete(ports, errand_of(call, ports), Kind.SERVICE_PRINCIPAL, call.params["id"])
    return Answer.empty()
