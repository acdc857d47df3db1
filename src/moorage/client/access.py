"""Users, groups, tokens and grants of a server with authentication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx
import msgspec
from msgspec import field

from moorage.client.errors import UNEXPECTED_ANSWER, ClientError
from moorage.client.transport import Transport, address, refusal
from moorage.core.errors import Advice

CONTROL: Final = "/api/1.0/unity-control"
_UNITY: Final = "/api/2.1/unity-catalog"


class Principal(msgspec.Struct, rename="camel"):
    """A user, service principal or group. A group's name is its display name."""

    id: str
    display_name: str = ""
    user_name: str = ""
    active: bool = True
    groups: list[dict[str, str]] = []
    members: list[dict[str, str]] = []

    @property
    def name(self) -> str:
        return self.user_name or self.display_name


class _Principals(msgspec.Struct):
    resources: list[Principal] = field(name="Resources")


class Token(msgspec.Struct):
    """A token. `token` is its secret, which only the server's first response contains."""

    token_id: str
    principal: str
    comment: str | None
    scope: str
    created_at: int
    created_by: str
    expires_at: int | None
    last_used_at: int | None
    token: str | None = None


class _Tokens(msgspec.Struct):
    tokens: list[Token]


class EffectivePrivilege(msgspec.Struct):
    privilege: str
    inherited_from_type: str | None = None
    inherited_from_name: str | None = None


class EffectiveAssignment(msgspec.Struct):
    principal: str
    privileges: list[EffectivePrivilege]


class Owner(msgspec.Struct):
    principal: str
    type: str
    name: str


class EffectivePermissions(msgspec.Struct):
    """The grants that hold on an object, and the owners, who may do everything."""

    privilege_assignments: list[EffectiveAssignment]
    owners: list[Owner]


class _Refusal(msgspec.Struct):
    """The errors of the control API (`detail`) and of the Unity API (`message`)."""

    error_code: str
    detail: str = ""
    message: str = ""


def _refused(response: httpx.Response) -> ClientError:
    try:
        error = msgspec.json.decode(response.content, type=_Refusal)
    except msgspec.DecodeError:
        return refusal(response)
    text = error.detail or error.message
    return ClientError(
        text, code=error.error_code or UNEXPECTED_ANSWER, advice=Advice.NEVER, status=response.status_code
    )


class Access:
    """Principals, tokens and grants. `kind` of a principal is Users, ServicePrincipals or Groups."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport.answering(_refused)

    def create(self, kind: str, name: str) -> Principal:
        body = {"userName" if kind == "Users" else "displayName": name}
        return self._transport.change("POST", f"{CONTROL}/scim2/{kind}", Principal, body=body)

    def principals(self, kind: str) -> list[Principal]:
        return self._transport.read(f"{CONTROL}/scim2/{kind}", _Principals, {"count": 1_000_000}).resources

    def find(self, kind: str, name: str) -> Principal:
        """The principal of a name, with the members of a group."""
        attribute = "userName" if kind == "Users" else "displayName"
        quoted = name.replace("\\", "\\\\").replace('"', '\\"')
        query = {"filter": f'{attribute} eq "{quoted}"'}
        found = self._transport.read(f"{CONTROL}/scim2/{kind}", _Principals, query).resources
        if not found:
            what = {"Users": "user", "Groups": "group"}.get(kind, "service principal")
            raise _missing(what, name)
        return self._transport.read(f"{CONTROL}/scim2/{kind}{address(found[0].id)}", Principal)

    def find_any(self, name: str) -> Principal:
        """The user, service principal or group of a name."""
        for kind in ("Users", "ServicePrincipals"):
            try:
                return self.find(kind, name)
            except ClientError as error:
                if error.status != 404:
                    raise
        try:
            return self.find("Groups", name)
        except ClientError as error:
            if error.status != 404:
                raise
            raise _missing("user, service principal or group", name) from None

    def delete(self, kind: str, name: str) -> None:
        id = self.find(kind, name).id
        self._transport.change("DELETE", f"{CONTROL}/scim2/{kind}{address(id)}", type(None))

    def change_member(self, group: str, member: str, *, op: str) -> Principal:
        """Add a member to a group (`op` is add) or remove it."""
        operation = {"op": op, "path": "members", "value": [{"value": self.find_any(member).id}]}
        path = f"{CONTROL}/scim2/Groups{address(self.find('Groups', group).id)}"
        return self._transport.change("PATCH", path, Principal, body={"Operations": [operation]})

    def create_token(
        self, principal: str | None = None, *, comment: str | None = None, days: int | None = None, scope: str = "all"
    ) -> Token:
        body = {"principal": principal, "comment": comment, "lifetime_days": days, "scope": scope}
        return self._transport.change("POST", f"{CONTROL}/tokens", Token, body=body)

    def tokens(self, principal: str | None = None) -> list[Token]:
        return self._transport.read(f"{CONTROL}/tokens", _Tokens, {"principal": principal}).tokens

    def revoke_token(self, id: str) -> None:
        self._transport.change("DELETE", f"{CONTROL}/tokens{address(id)}", type(None))

    def change_grants(
        self, kind: str, name: str, principal: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> None:
        """Grant privileges on an object to a principal, and revoke others."""
        body = {"changes": [{"principal": principal, "add": list(add), "remove": list(remove)}]}
        self._transport.change("PATCH", _object("permissions", kind, name), dict[str, Any], body=body)

    def effective(self, kind: str, name: str) -> EffectivePermissions:
        """Who holds which privilege on an object, and where it is granted."""
        return self._transport.read(_object("effective-permissions", kind, name), EffectivePermissions)


def _missing(what: str, name: str) -> ClientError:
    return ClientError(f"there is no {what} '{name}'", code="NOT_FOUND", advice=Advice.NEVER, status=404)


def _object(what: str, kind: str, name: str) -> str:
    return f"{_UNITY}/{what}/{quote(kind, safe='')}{address(name)}"
