"""Authenticate the recipients of shares."""

from __future__ import annotations

from moorage.core.accesses import MAX_PENDING, Access, Tally, add
from moorage.core.callers import Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Forbidden, Unauthenticated, Unavailable
from moorage.core.ids import SecurableId
from moorage.core.recipients import (
    UNKNOWN,
    Recipient,
    details_of,
    is_allowed_from,
    recipient_of_token,
    require_token,
)
from moorage.core.securables import Kind, Securable
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.federation import find_federated


async def authenticate(ports: Ports, credential: Credential | None, address: str) -> Recipient:
    """The recipient that presents this token from this address, or Unauthenticated or Forbidden.

    A token is checked against the ledger at every request: a revocation takes effect immediately.
    """
    require_recordable(ports)
    if credential is None:
        raise Unauthenticated("this request has no token; send the bearer token of the profile file")
    if credential.secret.count(".") == 2 and ports.issuers.urls:
        securable = await find_federated(ports, credential.secret)
    else:
        securable = await _find_by_token(ports, credential.secret, address)
    details = details_of(securable)
    if not is_allowed_from(details.addresses, address):
        _record_refusal(ports, securable.id, address, "the address is not allowed")
        raise Forbidden(
            f"requests of recipient '{securable.name}' are not allowed from {address}; "
            "ask the provider of the share to add this address"
        )
    return Recipient(
        id=securable.id,
        name=securable.name,
        shares=frozenset(details.shares),
        properties=securable.doc.properties,
        address=address,
    )


async def _find_by_token(ports: Ports, token: str, address: str) -> Securable:
    id = recipient_of_token(token)
    chain = () if id is None else await find_by_id(ports.ledger, id)
    if not chain or chain[-1].kind is not Kind.RECIPIENT:
        raise Unauthenticated(UNKNOWN)
    try:
        require_token(details_of(chain[-1]), token, ports.now_ms())
    except Unauthenticated as error:
        _record_refusal(ports, chain[-1].id, address, error.message.partition(";")[0])
        raise
    return chain[-1]


def require_recordable(ports: Ports) -> None:
    """Refuse all recipients while too many accesses wait to be stored: none may happen without a record."""
    if len(ports.local.accesses) >= MAX_PENDING:
        raise Unavailable("accesses cannot be recorded, because the database is not reachable; retry later")


def _record_refusal(ports: Ports, recipient: SecurableId, address: str, reason: str) -> None:
    """Record that a known recipient was refused. Dropped if too much is pending: it must not block other recipients."""
    if len(ports.local.accesses) < MAX_PENDING:
        now = ports.now_ms()
        access = Access(recipient=recipient, operation="authenticate", address=address, refusal=reason)
        add(ports.local.accesses, access, Tally(requests=1, files=0, bytes=0, first_at_ms=now, last_at_ms=now))


def as_recipient(caller: Caller) -> Recipient:
    """The caller of a route that authenticates recipients."""
    if not isinstance(caller, Recipient):
        raise Unauthenticated("this request has no token of a recipient")
    return caller
