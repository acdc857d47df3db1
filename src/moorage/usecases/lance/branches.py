"""The end of a branch: its line is dropped from the ledger, so that one of its name may begin anew."""

from __future__ import annotations

from moorage.core.callers import Caller
from moorage.core.entries import Done, DropLine, HeadIs
from moorage.core.privileges import Privilege
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.lookup import find_table, newest, no_branch
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle


async def drop_line(ports: Ports, errand: Errand, address: Address, ref: str) -> int | None:
    """Forget the versions of a branch whose files are gone; the number of the entry."""

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MODIFY))[-1]
        head = await newest(ports, table, ref)
        if head is None:
            raise no_branch(table, ref)
        drop = DropLine(table=table.id, ref=ref)
        return Part(expects=(HeadIs(table.id, ref, head.version),), changes=(drop,), done=Done(ids=(table.id,)))

    return (await settle(ports, errand, prepare)).receipt.seq
