"""Find the recipient that a token of an identity provider stands for."""

from __future__ import annotations

from typing import Any, Final

from moorage.core.errors import Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.recipients import OidcPolicy, details_of
from moorage.core.securables import Kind, Securable, Shelf
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

_BATCH: Final = 1_000
_IDS: Final = CacheKind[tuple[str, str], SecurableId]("recipients by issuer and subject", limit=10_000)
"""Where a recipient was found last. It is read again at each request, so a wrong entry only costs a search."""


async def find_federated(ports: Ports, token: str) -> Securable:
    """The recipient whose policy a token fulfils, or Unauthenticated. Only a valid token causes a search."""
    claims = await ports.issuers.verify(token, ports.now_ms())
    key = (str(claims.get("iss")), str(claims.get("sub")))
    ids = ports.local.cache(_IDS)
    known = ids.get(key)
    if known is not None:
        chain = await find_by_id(ports.ledger, known)
        if chain and _fulfils(ports, claims, chain[-1]):
            return chain[-1]
    found = await _search(ports, claims)
    ids.put(key, found.id)
    return found


async def _search(ports: Ports, claims: dict[str, Any]) -> Securable:
    after = ""
    while True:
        items = (await ports.ledger.children(ports.ledger.root, Shelf.RECIPIENT, after=after, limit=_BATCH)).items
        for item in items:
            if _fulfils(ports, claims, item):
                return item
        if len(items) < _BATCH:
            raise Unauthenticated("no recipient of this server has an identity with the claims of this token")
        after = name_key(items[-1].name)


def _fulfils(ports: Ports, claims: dict[str, Any], securable: Securable) -> bool:
    policy = details_of(securable).oidc if securable.kind is Kind.RECIPIENT else None
    return policy is not None and is_fulfilled(policy, claims, default_audience=ports.public_url)


def is_fulfilled(policy: OidcPolicy, claims: dict[str, Any], *, default_audience: str) -> bool:
    """Whether the claims are those of the policy. Without audiences, the token must be for this server."""
    stated = claims.get("aud")
    audiences = {stated} if isinstance(stated, str) else set(stated or ())
    return (
        claims.get("iss") == policy.issuer
        and _names(claims.get(policy.subject_claim), policy.subject)
        and bool(audiences & set(policy.audiences or (default_audience,)))
    )


def _names(claim: object, subject: str) -> bool:
    """Whether a claim is the subject, or a list that contains it, as a claim with groups does."""
    return claim == subject or (isinstance(claim, list) and subject in claim)
