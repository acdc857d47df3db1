"""Activation links: a recipient exchanges a link for its profile, once.

The token is made when the link is used, so no secret is stored before or after. The code in the link is derived from
the server's secret and the ids of the recipient and the token. The record of the recipient contains neither.
"""

from __future__ import annotations

import base64
import hmac
from hashlib import blake2b
from typing import Final

import msgspec

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Done, Live, RevisionIs, Update
from moorage.core.errors import SecurableNotFound
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.core.recipients import (
    RecipientToken,
    activated,
    details_of,
    digest_of,
    token_text,
    with_details,
)
from moorage.core.securables import Kind, Securable
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle
from moorage.usecases.sharing.profiles import Profile, profile

_ID_DIGITS: Final = 32
_INVALID: Final = "this activation link does not exist; ask the provider of the share for a new one"
_USED: Final = (
    "this activation link was used already; if you did not save the profile file, "
    "ask the provider of the share to rotate the token"
)


class Activation(msgspec.Struct, frozen=True, kw_only=True):
    """A link that can be used, and whom it is for."""

    recipient: Securable
    token: RecipientToken


def activation_code(ports: Ports, recipient: SecurableId, token: str) -> str:
    """The code in the link of a token. It contains the id of the recipient, so that one read finds it."""
    tag = blake2b(f"activation/{recipient}/{token}".encode(), key=ports.page_secret, digest_size=32).digest()
    return recipient.replace("-", "") + base64.urlsafe_b64encode(tag).rstrip(b"=").decode()


def links_of(ports: Ports, caller: Caller, recipient: Securable) -> dict[str, str]:
    """The codes of the unused links by the ids of their tokens, for a caller that may rotate the token.

    Any other caller must not get a token through a link.
    """
    if not ports.access.allow(caller, Privilege.MANAGE, (recipient,)):
        return {}
    unused = (token for token in details_of(recipient).tokens if not token.is_activated)
    return {token.id: activation_code(ports, recipient.id, token.id) for token in unused}


async def find_activation(ports: Ports, code: str) -> Activation:
    """The unused link of a code. SecurableNotFound if there is none, or it was used or replaced or has expired."""
    digits = code[:_ID_DIGITS]
    id = SecurableId("-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])))
    chain = await find_by_id(ports.ledger, id)
    if not chain or chain[-1].kind is not Kind.RECIPIENT:
        raise SecurableNotFound(_INVALID)
    for token in details_of(chain[-1]).tokens:
        if hmac.compare_digest(activation_code(ports, id, token.id).encode(), code.encode()):
            if token.is_activated:
                raise SecurableNotFound(_USED)
            if not token.is_valid(ports.now_ms()):
                raise SecurableNotFound("this activation link has expired; ask the provider of the share for a new one")
            return Activation(recipient=chain[-1], token=token)
    raise SecurableNotFound(_INVALID)


async def activate(ports: Ports, errand: Errand, code: str) -> Profile:
    """Use a link: make its token, and return the profile that contains it. Of two requests, one gets a profile."""

    async def prepare(caller: Caller) -> Part:
        found = await find_activation(ports, code)
        recipient = found.recipient
        text = token_text(recipient.id, fresh.secret())
        details = details_of(recipient)
        tokens = activated(details.tokens, found.token.id, digest_of(text), ports.now_ms())
        doc = with_details(recipient.doc, msgspec.structs.replace(details, tokens=tokens))
        return Part(
            expects=(Live(recipient.id), RevisionIs(recipient.id, recipient.revision)),
            changes=(Update(id=recipient.id, doc=doc),),
            done=Done(ids=(recipient.id,)),
            result=profile(ports, text, found.token.expires_at_ms),
        )

    settled = await settle(ports, errand, prepare)
    result: Profile = settled.parts[0].result
    return result
