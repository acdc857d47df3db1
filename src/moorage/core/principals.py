"""Users, service principals, groups and their tokens, as the catalog stores them.

A principal is known by its name in grants and as an owner. The name never changes, and stays taken after the principal
was deleted: a later principal of the same name must not inherit what the first one was granted.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from moorage.core.callers import RESERVED_NAMES
from moorage.core.errors import InvalidInput
from moorage.core.hosts import is_http_url
from moorage.core.ids import SecurableId
from moorage.core.names import name_key, require_name
from moorage.core.securables import Doc, Kind, Securable

PRINCIPAL_KINDS: Final = (Kind.USER, Kind.SERVICE_PRINCIPAL, Kind.GROUP)

ADMIN: Final = "admin"
"""The name of the first administrator."""
ADMINS: Final = "admins"
"""The group that owns the metastore, and with it every object."""

Scope = Literal["all", "read"]


class Principal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The details of a user, service principal or group."""

    active: bool = True
    """False: it cannot log in, and membership in it has no effect."""
    deleted: bool = False
    groups: tuple[str, ...] = ()
    """The names of the groups of which it is a direct member."""
    display_name: str | None = None
    external_id: str | None = None
    """Its id at the identity provider: what a SCIM client sends, or the account of a first login."""

    @property
    def account(self) -> str | None:
        """The issuer and the subject whose tokens alone identify it; None if its name is enough.

        A SCIM client sends an external id of another form, which the tokens of the provider do not have.
        """
        issuer, bar, _ = (self.external_id or "").partition("|")
        return self.external_id if bar and is_http_url(issuer) else None


class TokenDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The details of a token."""

    digest: str
    expires_at_ms: int | None = None
    scope: Scope = "all"
    is_session: bool = False
    """It was issued to a browser, which presents it as a cookie. The digest is that of `name=value`."""
    made_from: SecurableId | None = None
    """The token by which a browser logged in. The session ends with it."""


def principal_of(securable: Securable) -> Principal:
    return msgspec.convert(securable.doc.details, Principal)


def token_of(securable: Securable) -> TokenDetails:
    return msgspec.convert(securable.doc.details, TokenDetails)


def doc_of(details: Principal | TokenDetails, comment: str | None = None) -> Doc:
    stored: dict[str, Any] = msgspec.to_builtins(details)
    return Doc(comment=comment, details=stored)


def require_principal_name(name: str, field: str) -> str:
    """Return the name of a new principal unchanged if it is valid, or raise InvalidInput."""
    require_name(name, field)
    if name_key(name) in RESERVED_NAMES:
        raise InvalidInput(f"{field} '{name}' is reserved; choose another name", field=field)
    if name != name.strip():
        raise InvalidInput(f"{field} '{name}' begins or ends with a space", field=field)
    return name
