"""Grant shares to recipients. A grant is stored with its recipient, so that a recipient's request reads one object."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Change, Done, Expect, Live, RevisionIs, Update
from moorage.core.names import name_key, require_name
from moorage.core.privileges import Privilege
from moorage.core.recipients import details_of, granted, with_details
from moorage.core.securables import Securable, Shelf
from moorage.usecases.catalog.addresses import find_by_id, reach, recipient, share
from moorage.usecases.catalog.browse import page_below
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

_BATCH: Final = 1_000


class GrantChange(msgspec.Struct, frozen=True, kw_only=True):
    """Grant a share to a recipient, or revoke it."""

    recipient: str
    grant: bool


class RecipientPage(msgspec.Struct, frozen=True):
    recipients: tuple[Securable, ...]
    next_token: str | None


async def change_permissions(ports: Ports, errand: Errand, name: str, changes: Sequence[GrantChange]) -> None:
    """Grant a share to recipients and revoke it from others, all in one step."""

    async def prepare(caller: Caller) -> Part:
        found = (await reach(ports, caller, share(name), Privilege.MANAGE))[-1]
        wanted = {name_key(each.recipient): each for each in changes}  # the last change of a recipient counts
        expects: list[Expect] = [Live(found.id)]
        updates: list[Change] = []
        for each in wanted.values():
            address = recipient(require_name(each.recipient, "principal"))
            target = (await reach(ports, caller, address, Privilege.BROWSE))[-1]
            details = details_of(target)
            shares = tuple(id for id in details.shares if id != found.id)
            if each.grant:
                shares = granted(details.shares, found.id)
            if shares != details.shares:
                expects += (Live(target.id), RevisionIs(target.id, target.revision))
                updates.append(Update(id=target.id, doc=with_details(target.doc, replace(details, shares=shares))))
        return Part(expects=tuple(expects) if updates else (), changes=tuple(updates), done=Done(ids=(found.id,)))

    await settle(ports, errand, prepare)


async def page_recipients(ports: Ports, caller: Caller, name: str, *, token: str | None, limit: int) -> RecipientPage:
    """The recipients of a share, ordered by name. A page may be short: other recipients are between them."""
    found = (await reach(ports, caller, share(name), Privilege.BROWSE))[-1]
    while True:
        page = await page_below(ports, caller, (), Shelf.RECIPIENT, token=token, limit=min(limit, _BATCH))
        items = tuple(item for item in page.items if found.id in details_of(item).shares)
        token = page.next_token
        if items or token is None:
            return RecipientPage(items, token)


async def shares_of(ports: Ports, caller: Caller, name: str) -> tuple[Securable, ...]:
    """The shares of a recipient that the caller can see, ordered by name."""
    found = (await reach(ports, caller, recipient(name), Privilege.BROWSE))[-1]
    chains = await asyncio.gather(*(find_by_id(ports.ledger, id) for id in details_of(found).shares))
    allow = ports.access.allow
    visible = [chain[-1] for chain in chains if chain and allow(caller, Privilege.BROWSE, chain)]
    return tuple(sorted(visible, key=lambda item: name_key(item.name)))
