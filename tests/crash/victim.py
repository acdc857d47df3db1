"""Programs for child processes that are killed, run out of disk, or lack permissions. The parent reads their output.

victim.py <verb> <address>      address: a data folder, or the URL of a PostgreSQL database
"""

import asyncio
import os
import resource
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from moorage.core.entries import Draft, HeadIs, Receipt
from moorage.core.errors import MoorageError, Unavailable
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN
from moorage.ledger.migrations import Migration, migrations_of
from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make

NOBODY = 65534
MEGABYTE = 1024 * 1024


def print_line(*words: object) -> None:
    """Print a line with one system call, so that a kill cannot cut it in two."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def open_ledger(address: str) -> Ledger:
    return await (PostgresLedger.open(address) if "://" in address else SqliteLedger.open(Path(address)))


async def append(address: str) -> None:
    """Append the drafts of standard input concurrently, and print their numbers."""
    drafts = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Draft])
    ledger = await open_ledger(address)
    for receipt in await asyncio.gather(*map(ledger.append, drafts)):
        print_line(receipt.seq)
    await ledger.close()


async def write(address: str) -> None:
    """Run one writer for each table of standard input until killed, and print each acknowledged draft."""
    tables = msgspec.json.decode(sys.stdin.buffer.read(), type=list[SecurableId])
    ledger = await open_ledger(address)

    async def writer(table: SecurableId) -> None:
        head = await ledger.head(table, MAIN)
        version = -1 if head is None else head.version
        while True:
            draft = make.draft(
                make.commit(table, version + 1), expects=[HeadIs(table, MAIN, version if version >= 0 else None)]
            )
            receipt = await ledger.append(draft)
            print_line(draft.id, receipt.seq)
            version += 1

    await asyncio.gather(*map(writer, tables))


async def migrate(address: str) -> None:
    """Open the ledger with one more migration than the current code has."""
    store = "moorage.ledger.postgres" if "://" in address else "moorage.ledger.sqlite"
    columns = "alter table job add column x text;\nalter table head add column x text;\n"
    replace_migrations(address, (*migrations_of(store), Migration(9999, "to_come", 1, columns)))
    ledger = await open_ledger(address)
    print_line((await ledger.position()).seq)
    await ledger.close()


def replace_migrations(address: str, migrations: tuple[Migration, ...]) -> None:
    store = "postgres" if "://" in address else "sqlite"
    for module in ("moorage.ledger.migrations", f"moorage.ledger.{store}.connections"):
        setattr(sys.modules[module], "migrations_of", lambda package: migrations)  # noqa: B010 - no known export


async def run_out_of_disk(address: str) -> None:
    """Write until the disk is full, check that nothing is lost, and continue when there is space again."""
    ledger = await SqliteLedger.open(Path(address))
    lake = await make.lake(ledger, *[f"t{n}" for n in range(8)])
    known = len(await ledger.entries(0))
    limit_files(size_of(address, "ledger.db-wal") + MEGABYTE)

    full = 0
    versions = dict.fromkeys(lake.tables, 0)
    for _ in range(100):
        results = await asyncio.gather(
            *[ledger.append(heavy(table, version + 1)) for table, version in versions.items()],
            return_exceptions=True,
        )
        for table, result in zip(lake.tables, results, strict=True):
            if isinstance(result, Receipt):
                known += 1
                versions[table] += 1
            else:
                assert isinstance(result, Unavailable), result
                assert "disk of the ledger is full; nothing was written" in result.message, result
                full += 1
    assert full > 0
    await require_acknowledged(ledger, known, versions)

    limit_files(resource.RLIM_INFINITY)
    for table, version in versions.items():
        await ledger.append(heavy(table, version + 1))
        versions[table] += 1
    await require_acknowledged(ledger, known + 8, versions)
    await ledger.close()
    print_line(known + 8)


async def open_on_a_full_disk(address: str) -> None:
    """The log cannot be preallocated. The ledger must start anyway."""
    limit_files(MEGABYTE)
    ledger = await SqliteLedger.open(Path(address))
    await make.lake(ledger)
    print_line(size_of(address, "ledger.db-wal") <= MEGABYTE)
    await ledger.close()


async def open_without_any_space(address: str) -> None:
    """Not even the process id can be written into the lock file."""
    limit_files(0)
    try:
        await SqliteLedger.open(Path(address))
    except MoorageError as error:
        print_line(f"{type(error).__name__}: {error.message}")


async def checkpoint_on_a_full_disk(address: str) -> None:
    """The main file cannot grow while the disk is full. Afterwards it must."""
    ledger = await SqliteLedger.open(Path(address))
    lake = await make.lake(ledger)
    limit_files(8 * MEGABYTE)
    version, deadline = 0, asyncio.get_running_loop().time() + 20
    while asyncio.get_running_loop().time() < deadline:
        try:
            await ledger.append(heavy(lake.table, version + 1, MEGABYTE))
            version += 1
        except Unavailable:
            break
        await asyncio.sleep(0.06)  # one interval of the checkpointer
    else:
        raise AssertionError("the disk was never full")
    limit_files(resource.RLIM_INFINITY)
    for _ in range(20):
        await ledger.append(heavy(lake.table, version + 1, MEGABYTE))
        version += 1
    for _ in range(100):
        if size_of(address, "ledger.db") > 15 * MEGABYTE:
            break
        await ledger.append(make.draft(make.update(lake.table)))
        await asyncio.sleep(0.06)
    print_line(size_of(address, "ledger.db") > 15 * MEGABYTE)
    await ledger.close()


async def require_acknowledged(ledger: Ledger, known: int, versions: dict[SecurableId, int]) -> None:
    """Reads work, and return exactly what was acknowledged."""
    entries = await ledger.entries(0, limit=10_000)
    assert [entry.seq for entry in entries] == list(range(1, known + 1))
    for table, version in versions.items():
        head = await ledger.head(table, MAIN)
        assert head is not None
        assert head.version == version


def heavy(table: SecurableId, version: int, size: int = 20_000) -> Draft:
    """A commit with staged bytes. They are kept until it is published; of documents only the last two are kept."""
    bytes_ = make.attached(table, version, staged=os.urandom(size))
    change = make.published_commit(table, version)
    return make.draft(change, expects=[HeadIs(table, MAIN, version - 1)], attachments=[bytes_])


def size_of(address: str, file: str) -> int:
    return Path(address, file).stat().st_size


def limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def open_as_nobody(address: str) -> None:
    """Root may write everywhere, so become another user. That user may not read the code: load it before."""
    shipped = migrations_of("moorage.ledger.sqlite")
    replace_migrations(address, shipped)
    with TemporaryDirectory() as other_folder:
        await (await open_ledger(other_folder)).close()
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    try:
        await (await open_ledger(address)).close()
    except MoorageError as error:
        print_line(f"{type(error).__name__}: {error.message}")


VERBS: dict[str, Callable[[str], Awaitable[None]]] = {
    "append": append,
    "write": write,
    "migrate": migrate,
    "run-out-of-disk": run_out_of_disk,
    "open-on-a-full-disk": open_on_a_full_disk,
    "open-without-any-space": open_without_any_space,
    "checkpoint-on-a-full-disk": checkpoint_on_a_full_disk,
    "open-as-nobody": open_as_nobody,
}


async def main(verb: str, address: str) -> None:
    await VERBS[verb](address)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
