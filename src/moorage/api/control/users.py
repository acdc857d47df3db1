"""Users: people who use the catalog."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType, field

from moorage.api.control import accounts
from moorage.api.control.accounts import EXAMPLE_META, EXAMPLE_PATCH, Account, example_list
from moorage.api.control.api import control
from moorage.api.control.scim import (
    COMMON_ATTRIBUTES,
    EXAMPLE_USER_ID,
    LIST_SCHEMA,
    Email,
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

USER_SCHEMA = ("urn:ietf:params:scim:schemas:core:2.0:User",)
_ATTRIBUTES = {"username": Attribute.NAME, "displayname": Attribute.DISPLAY_NAME, **COMMON_ATTRIBUTES}
"""What filters may name."""

routes = control.section(tags=("users",))


class NewUser(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user. Its name in grants is `userName`, or else its first e-mail address."""

    user_name: Name | None = None
    display_name: str | None = None
    emails: list[Email] = []
    external_id: str | None = None
    active: bool | None = None
    schemas: list[str] = field(default_factory=lambda: [*USER_SCHEMA])

    @property
    def account(self) -> Account:
        emails = sorted(self.emails, key=lambda email: not email.primary)
        return Account(
            kind=Kind.USER,
            field="userName",
            name=self.user_name or next((email.value for email in emails), None),
            display_name=self.display_name,
            external_id=self.external_id,
            active=self.active,
        )


class User(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A user."""

    schemas: tuple[str, ...] = USER_SCHEMA
    id: str
    user_name: str
    display_name: str | UnsetType = UNSET
    emails: list[Email]
    external_id: str | UnsetType = UNSET
    active: bool
    groups: list[Reference]
    meta: ScimMeta


class UserList(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the list of users."""

    schemas: tuple[str, ...] = LIST_SCHEMA
    total_results: int
    start_index: int
    items_per_page: int
    resources: list[User] = field(name="Resources")


def to_user(securable: Securable) -> User:
    details, name = principal_of(securable), securable.name
    return User(
        id=securable.id,
        user_name=name,
        display_name=UNSET if details.display_name is None else details.display_name,
        emails=[Email(value=name, primary=True)] if "@" in name else [],
        external_id=UNSET if details.external_id is None else details.external_id,
        active=details.active,
        groups=[Reference(value=group, display=group) for group in details.groups],
        meta=meta_of(securable, "User"),
    )


EXAMPLE_USER: dict[str, Any] = {
    "schemas": [*USER_SCHEMA],
    "id": EXAMPLE_USER_ID,
    "userName": "ann@example.com",
    "displayName": "Ann",
    "emails": [{"value": "ann@example.com", "primary": True}],
    "active": True,
    "groups": [{"value": "analysts", "display": "analysts"}],
    "meta": {"resourceType": "User", **EXAMPLE_META},
}

_NEW = {"userName": "ann@example.com", "displayName": "Ann"}


@routes.post(
    "/scim2/Users",
    operation="createUser",
    summary="Create a user.",
    body=NewUser,
    answer=User,
    status=201,
    errors=(InvalidInput, NameTaken),
    example=Example(body=_NEW, answer=EXAMPLE_USER),
)
async def create(call: Call[NewUser, NoQuery], ports: Ports) -> Answer:
    """Create a user. It can log in as soon as it has a token. For administrators."""
    return Answer.json(to_user(await accounts.create(call, ports, call.body.account)), status=201)


@routes.get(
    "/scim2/Users",
    operation="listUsers",
    summary="List users.",
    query=ListQuery,
    answer=UserList,
    errors=(InvalidInput,),
    example=Example(query={"filter": 'userName eq "ann@example.com"'}, answer=example_list(EXAMPLE_USER)),
)
async def list_all(call: Call[NoBody, ListQuery], ports: Ports) -> Answer:
    """List users in the order of their names, or find one by its name. For administrators."""
    shown, numbers = await accounts.find(call, ports, Kind.USER, _ATTRIBUTES)
    return Answer.json(UserList(resources=[to_user(each) for each in shown], **numbers))


@routes.get(
    "/scim2/Users/{id}",
    operation="getUser",
    summary="Get a user.",
    answer=User,
    errors=(SecurableNotFound,),
    example=Example(path={"id": EXAMPLE_USER_ID}, answer=EXAMPLE_USER),
)
async def get(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return one user. For administrators."""
    return Answer.json(to_user(await principals.get(ports, call.caller, Kind.USER, call.params["id"])))


@routes.put(
    "/scim2/Users/{id}",
    operation="replaceUser",
    summary="Replace a user.",
    body=NewUser,
    answer=User,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path={"id": EXAMPLE_USER_ID}, body=_NEW, answer=EXAMPLE_USER),
)
async def replace(call: Call[NewUser, NoQuery], ports: Ports) -> Answer:
    """Change the description of a user, or activate it again. Its name cannot change. For administrators."""
    return Answer.json(to_user(await accounts.replace(call, ports, call.body.account)))


@routes.patch(
    "/scim2/Users/{id}",
    operation="updateUser",
    summary="Update a user.",
    body=Patch,
    answer=User,
    errors=(InvalidInput, SecurableNotFound),
    example=Example(path={"id": EXAMPLE_USER_ID}, body=EXAMPLE_PATCH, answer=EXAMPLE_USER | {"active": False}),
)
async def update(call: Call[Patch, NoQuery], ports: Ports) -> Answer:
    """Change the description of a user, or whether it is active. For administrators."""
    return Answer.json(to_user(await accounts.patch(call, ports, Kind.USER, name="userName")))


@routes.delete(
    "/scim2/Users/{id}",
    operation="deleteUser",
    summary="Delete a user.",
    status=204,
    errors=(SecurableNotFound,),
    example=Example(path={"id": EXAMPLE_USER_ID}),
)
async def delete(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a user and revoke its tokens. Its name stays taken. For administrators."""
    await principals.delete(ports, errand_of(call, ports), Kind.USER, call.params["id"])
    return Answer.empty()
