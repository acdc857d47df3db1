"""Create, change, rotate and list recipients."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.core.recipients import (
    Authentication,
    OidcPolicy,
    RecipientDetails,
    RecipientToken,
    details_of,
    rotated,
    with_details,
)
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Securable
from moorage.usecases.catalog.addresses import reach, recipient
from moorage.usecases.catalog.objects import prepare_create
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

TOKEN_LIFETIME_MS: Final = 365 * 24 * 60 * 60 * 1000
"""How long a token is valid if its provider states no time. A token that never expires would outlive its purpose."""
MAX_TIME_MS: Final = 253_402_300_799_999
"""The end of the year 9999, which is the last that a profile file can state."""


class NewRecipient(msgspec.Struct, frozen=True, kw_only=True):
    """The recipient to create."""

    comment: str | None = None
    properties: dict[str, str] = {}
    authentication: Authentication = "TOKEN"
    expires_at_ms: int | None = None
    addresses: tuple[str, ...] = ()
    oidc: OidcPolicy | None = None


class RecipientChange(msgspec.Struct, frozen=True, kw_only=True):
    """What to change about a recipient. None keeps the current value."""

    revision: Revision = Revision()
    expires_at_ms: int | None = None
    addresses: tuple[str, ...] | None = None
    oidc: OidcPolicy | None = None


async def create_recipient(ports: Ports, errand: Errand, name: str, new: NewRecipient) -> Securable:
    """Create a recipient. One that authenticates by token gets its first activation link."""

    async def prepare(caller: Caller) -> Part:
        by_token = new.authentication == "TOKEN"
        if by_token == (new.oidc is not None):
            problem = "only for" if by_token else "required for"
            raise InvalidInput(f"oidc_policy is {problem} the authentication_type OIDC_FEDERATION", field="oidc_policy")
        _require_issuer(ports, new.oidc)
        details = RecipientDetails(
            authentication=new.authentication,
            tokens=(_new_token(ports, caller, new.expires_at_ms),) if by_token else (),
            addresses=new.addresses,
            oidc=new.oidc,
        )
        doc = with_details(Doc(comment=new.comment, properties=new.properties), details)
        return await prepare_create(ports, caller, recipient(name), doc)

    return await settle_one(ports, errand, prepare)


async def change_recipient(ports: Ports, errand: Errand, name: str, change: RecipientChange) -> Securable:
    """Change the description, name, owner and restrictions of a recipient. Its tokens stay valid."""

    async def prepare(caller: Caller) -> Part:
        chain = await reach(ports, caller, recipient(name), Privilege.MODIFY)
        details = details_of(chain[-1])
        if change.addresses is not None:
            details = replace(details, addresses=change.addresses)
        if change.oidc is not None:
            _require_authentication(chain[-1], details, "OIDC_FEDERATION")
            _require_issuer(ports, change.oidc)
            details = replace(details, oidc=change.oidc)
        if change.expires_at_ms is not None:
            details = replace(details, tokens=_expiring(ports, chain[-1], details, change.expires_at_ms))
        return await revise_found(ports, caller, chain, replace(change.revision, details=_encoded(details)))

    return await settle_one(ports, errand, prepare)


async def rotate_token(ports: Ports, errand: Errand, name: str, *, grace_ms: int) -> Securable:
    """Give a recipient a new activation link. Its current token stays valid for the grace period, at most."""

    async def prepare(caller: Caller) -> Part:
        chain = await reach(ports, caller, recipient(name), Privilege.MANAGE)
        details = details_of(chain[-1])
        _require_authentication(chain[-1], details, "TOKEN")
        now = ports.now_ms()
        newest = details.tokens[-1]
        lifetime = newest.expires_at_ms - newest.created_at_ms  # the new token is valid for as long as the former one
        new = _new_token(ports, caller, min(now + max(lifetime, 1), MAX_TIME_MS))
        tokens = rotated(details.tokens, new, now_ms=now, grace_ms=grace_ms)
        revision = Revision(details=_encoded(replace(details, tokens=tokens)))
        return await revise_found(ports, caller, chain, revision)

    return await settle_one(ports, errand, prepare)


def _new_token(ports: Ports, caller: Caller, expires_at_ms: int | None) -> RecipientToken:
    now = ports.now_ms()
    expires = now + TOKEN_LIFETIME_MS if expires_at_ms is None else _require_future(expires_at_ms, now)
    return RecipientToken(id=fresh.securable_id(), created_at_ms=now, created_by=caller.id, expires_at_ms=expires)


def _require_future(at_ms: int, now_ms: int) -> int:
    if not now_ms < at_ms <= MAX_TIME_MS:
        raise InvalidInput(
            f"expiration_time {at_ms} is not in the future; give milliseconds since 1970 above {now_ms}",
            field="expiration_time",
        )
    return at_ms


def _expiring(ports: Ports, securable: Securable, details: RecipientDetails, at_ms: int) -> tuple[RecipientToken, ...]:
    """The tokens with another end of the newest one. The end of a former token is that of its rotation."""
    _require_authentication(securable, details, "TOKEN")
    newest = replace(details.tokens[-1], expires_at_ms=_require_future(at_ms, ports.now_ms()))
    return (*details.tokens[:-1], newest)


def _require_issuer(ports: Ports, policy: OidcPolicy | None) -> None:
    if policy is not None and policy.issuer not in ports.issuers:
        known = ", ".join(ports.issuers.urls) or "none"
        raise InvalidInput(
            f"the issuer {policy.issuer!r} is not one of those that this server trusts ({known}); "
            "add it to --oidc-issuers",
            field="oidc_policy",
        )


def _require_authentication(securable: Securable, details: RecipientDetails, wanted: Authentication) -> None:
    if details.authentication != wanted:
        raise InvalidInput(
            f"recipient '{securable.name}' authenticates by {details.authentication}, not by {wanted}",
            field="authentication_type",
        )


def _encoded(details: RecipientDetails) -> dict[str, Any]:
    """All entries of the details; None for those that are absent, so that a revision removes them."""
    encoded = msgspec.to_builtins(details)
    return {name: encoded.get(name) for name in RecipientDetails.__struct_fields__}
