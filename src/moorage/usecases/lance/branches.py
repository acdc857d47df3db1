"""Dropping the line of a deleted branch, so that a new branch can have its name."""

from __future__ import annotations

from moorage.core.callers import Caller
from moorage.core.entries import Done, DropLine, HeadIs
from moorage.core.privileges import Privilege
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.lookup import branch_not_found_error, find_table, line_head
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle


async def drop_line(ports: Ports, errand: Errand, address: Address, ref: str) -> int | None:
    """Drop the versions of a branch whose files are deleted; the number of the entry."""

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MODIFY))[-1]
        head = await line_head(ports, table, ref)
        if head is None:
            raise branch_not_found_error(table, ref)
        drop = DropLine(table=table.id, ref=ref)
        return Part(expects=(HeadIs(table.id, ref, head.version),), changes=(drop,), done=Done(ids=(table.id,)))

    return (await settle(ports, errand, prepare)).receipt.seq
