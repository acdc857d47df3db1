"""Ledgers to transfer, in either store, with rows in every table."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from moorage.core.entries import Attachment, FinishJob, JobHeld, JobState, Refused
from moorage.core.ids import Fence
from moorage.core.securables import MAIN
from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.ledger.transfer.backup import back_up_database, back_up_folder
from moorage.ledger.transfer.digests import Digest
from moorage.ledger.transfer.restore import restore_database, restore_folder
from moorage.testing import builders as make

Digests = dict[str, Digest]


def silent(words: str) -> None:
    """Ignore progress messages."""


class Store:
    """A folder or a database that can hold a ledger."""

    def __init__(self, kind: str, folder: Path, url: str) -> None:
        self.kind, self.folder, self.url = kind, folder, url

    @contextlib.asynccontextmanager
    async def ledger(self) -> AsyncIterator[Ledger]:
        opened = await (SqliteLedger.open(self.folder) if self.kind == "sqlite" else PostgresLedger.open(self.url))
        try:
            yield opened
        finally:
            await opened.close()

    async def back_up(self, to: Path) -> Digests:
        if self.kind == "sqlite":
            return await asyncio.to_thread(back_up_folder, self.folder, to, silent)
        return await back_up_database(self.url, to, silent)

    async def restore(self, backup: Path) -> Digests:
        if self.kind == "sqlite":
            return await asyncio.to_thread(restore_folder, backup, self.folder, silent)
        return await restore_database(backup, self.url, silent)


NewStore = Callable[[str], Store]


async def fill(ledger: Ledger) -> None:
    """Write at least one row into every table of the ledger."""
    lake = await make.lake(ledger, "orders", "Größe 🌊")
    placed = make.table(lake.namespace, "placed", path="/lake/placed")
    attachment = Attachment(table=placed.id, ref=MAIN, version=0, document=b'{"a": "\xc3\xa9"}', staged=b"\x00\xff")
    await ledger.append(make.draft(placed, make.published_commit(placed.id, 0, digest="abc"), attachments=[attachment]))
    for version in range(1, 40):
        await make.add(ledger, make.commit(lake.table, version, details={"n": version}))
    await ledger.record_published(lake.table, MAIN, 3)
    await ledger.store_report(lake.table, 3, b"\x00{}")
    await make.add(ledger, make.drop(lake.tables[1]), make.update(lake.table, owner="bob", comment="c"))
    await ledger.append(make.draft(make.catalog(ledger.root, "second"), key=make.idempotency_key("k1")))
    refused = Refused(error="NameTaken", message="taken", details={"id": "x"})
    await ledger.append(make.draft(key=make.idempotency_key("k2"), outcome=refused))
    await ledger.append(make.draft(jobs=[make.job("audit", args={"deep": [1, None]}), make.job("compact")]))
    taken = await ledger.lease_job("w", ["audit"], Fence("f1"), 60_000)
    assert taken is not None
    await ledger.renew_lease(taken.job.id, Fence("f1"), 60_000, {"half": True})
    ended = make.job("ended")
    await ledger.append(make.draft(jobs=[ended]))
    finish = FinishJob(job=ended.id, state=JobState.SUCCEEDED, result={"ok": 1})
    await ledger.append(make.draft(finish, expects=[JobHeld(ended.id, None)]))
    await ledger.page_secret()


async def contents_of(store: Store) -> tuple[object, ...]:
    """What a ledger returns through its port: the whole feed, a receipt, the jobs, the page secret."""
    async with store.ledger() as ledger:
        entries = await ledger.entries(0, limit=1000)
        return entries, await ledger.receipt("ann", "k2"), await ledger.jobs(), await ledger.page_secret()
