"""Publishing: the bytes of a ratified commit are stored under their final name, in order, once, durably.

Any server may do it, any number of times. Each version is published before the next, and bytes that exist already are
compared. Other bytes stop the line, unless the format replaces them. Iceberg's metadata files have their final names
from the start, but were written without waiting for the disk: here they are made durable, many at a time.
"""

from __future__ import annotations

import asyncio
from itertools import groupby

from moorage.core.entries import Publish
from moorage.core.errors import Damaged, MoorageError, TooLarge
from moorage.core.ids import SecurableId
from moorage.core.locations import require_location
from moorage.core.securables import Securable
from moorage.ledger.port import Staged
from moorage.storage.digests import digest_of
from moorage.usecases.ports import Ports

_LAST = 2**62
_AT_ONCE = 32
"""How many versions are looked at together. The notes of lines that are ready at the same time share a commit."""
_HOWEVER_YOUNG = -24 * 60 * 60 * 1000
"""Also if a server whose clock is ahead has written it."""
_FEWEST_BETWEEN_SWEEPS = 64
_HANDS = 4
"""How many are written at the same time: readers need threads too."""


async def make_durable(ports: Ports) -> int:
    """Let no power cut take what this server wrote without waiting for the disk; how many lines it wrote to.

    Should the disk refuse, they stay staged, and `publish_due` writes them again, as it does for a server that died.
    """
    written = dict(ports.local.unsynced)
    if not written:
        return 0
    try:
        await ports.storage.sync()
        await ports.ledger.record_durable(written)
    except BaseException:
        ports.local.unsynced.clear()  # also what came meanwhile: a disk tells only once that it lost something
        raise
    for line, version in written.items():
        if ports.local.unsynced.get(line) == version:
            del ports.local.unsynced[line]
    return len(written)


async def publish_due(ports: Ports, *, older_than_ms: int = 0) -> int:
    """Publish what still waits, many lines at once; how many versions reached their final name.

    A version that cannot be published holds up its own line, because publishing past it would hide it,
    and no other.
    """
    done = 0
    after = ("", "", -1)
    hands, large = asyncio.Semaphore(_HANDS), asyncio.Lock()
    while waiting := await ports.ledger.staged(older_than_ms=older_than_ms, after=after, limit=_AT_ONCE):
        lines = [tuple(line) for _, line in groupby(waiting, lambda staged: (staged.table, staged.ref))]
        published = await asyncio.gather(*(_publish_line(ports, line, hands, large) for line in lines))
        done += sum(count for count, _ in published)
        last, (_, is_stuck) = waiting[-1], published[-1]
        after = (last.table, last.ref, _LAST if is_stuck else last.version)
    return done


async def publish_table(ports: Ports, id: SecurableId) -> None:
    """Publish what still waits of one table, before the ledger forgets it. Damaged: something is in the way."""
    after = (id, "", -1)
    while waiting := await ports.ledger.staged(older_than_ms=_HOWEVER_YOUNG, after=after, limit=_AT_ONCE):
        for staged in waiting:
            if staged.table != id:
                return
            if staged.publish is not None and await _lay_down(ports, staged, staged.publish):
                await ports.ledger.record_published(id, staged.ref, staged.version)
            after = (id, staged.ref, staged.version)


async def _publish_line(
    ports: Ports, line: tuple[Staged, ...], hands: asyncio.Semaphore, large: asyncio.Lock
) -> tuple[int, bool]:
    """Versions of one line, in their order: how many reached their final name, and whether one could not.

    What the ledger did not keep may be large, so of those the bytes of only one are held at a time.
    """
    done, laid, staged = 0, list[int](), line[0]
    try:
        try:
            for staged in line:
                async with large if staged.bytes is None else hands:
                    if staged.publish is None:
                        done += await _write_again(ports, staged)
                    elif await _lay_down(ports, staged, staged.publish):
                        laid.append(staged.version)
        finally:
            if laid:
                await ports.ledger.record_published(staged.table, staged.ref, laid[-1])
                done += len(laid)
    except MoorageError as error:
        ports.alarms.ring(staged.table, staged.ref, staged.version, error.message, now_ms=ports.now_ms())
        return done, True
    if laid and is_sweep_due(laid[0] - 1, laid[-1]):
        await _sweep(ports, staged, laid[-1])
    return done, False


def is_sweep_due(before: int, version: int) -> bool:
    """Whether a line is swept on its way to a version. The longer the line, the rarer: each version pays for few."""
    step = max(_FEWEST_BETWEEN_SWEEPS, 1 << version.bit_length() >> 3)
    return before // step < version // step


async def _sweep(ports: Ports, staged: Staged, published: int) -> None:
    chain = (await ports.ledger.lineage(staged.table)).chain
    if chain:
        await ports.formats.of(chain[-1]).sweep(ports, chain[-1], staged.ref, published)


async def _write_again(ports: Ports, staged: Staged) -> bool:
    """The metadata file of a server that ended before it was durable, from the bytes that the ledger kept.

    Only of the version that the table is at: of those before it the ledger keeps no bytes, and nobody needs them.
    """
    line = (staged.table, staged.ref)
    chain = (await ports.ledger.lineage(staged.table)).chain
    if _is_going(chain) or staged.version <= ports.local.unsynced.get(line, -1):
        return False
    head = chain[-1].head
    document = await ports.ledger.document(*line, staged.version)
    if document is not None and head is not None and head.version == staged.version:
        file = await ports.formats.of(chain[-1]).rebuild_file(document, staged.file)
        await ports.storage.overwrite(file.root, file.path, file.data)
        if _is_going((await ports.ledger.lineage(staged.table)).chain):
            await ports.storage.delete(file.root, file.path)
            return False
    await ports.ledger.record_durable({line: staged.version})
    return True


async def _lay_down(ports: Ports, staged: Staged, publish: Publish) -> bool:
    """Whether the version lies under its final name now, to stay there."""
    chain = (await ports.ledger.lineage(staged.table)).chain
    if _is_going(chain):
        return False
    table, place = chain[-1], require_location(chain[-1])
    offers = ports.formats.of(table)
    ratified = await _ratified_bytes(ports, place, staged, publish)
    if await offers.is_abandoned(ports, table, staged, publish, ratified):
        return True
    if ratified is None:
        raise _altered(staged, publish.source)
    is_new = await _put(ports, table, staged, publish, ratified)
    if is_new and _is_going(chain := (await ports.ledger.lineage(staged.table)).chain):
        # The table was purged while its file was written, and no later purge would find the file.
        await ports.storage.delete(place, publish.target)
        return False
    if is_new and await offers.is_abandoned(ports, chain[-1], staged, publish, ratified, is_new=True):
        await ports.storage.delete(place, publish.target)
        return True
    if offers.deletes_staged and publish.source != publish.target:
        await ports.storage.delete(place, publish.source)
    return True


async def _put(ports: Ports, table: Securable, staged: Staged, publish: Publish, ratified: bytes) -> bool:
    """Lay the bytes down under their final name; whether they did not lie there before."""
    place = require_location(table)
    while not await ports.storage.put_new(place, publish.target, ratified):
        if await _ratified_at(ports, place, staged, publish.target) is not None:
            return False
        if await ports.storage.is_gone(place, publish.target, ask=True):  # somebody has just deleted it
            continue
        if not await ports.formats.of(table).replace_published(ports, table, staged.version, ratified):
            raise _altered(staged, publish.target)
        return True
    return True


async def _ratified_bytes(ports: Ports, place: str, staged: Staged, publish: Publish) -> bytes | None:
    """What is to be published: the ledger kept it, or it lies where it was staged, or by now under its final name."""
    if staged.bytes is not None:
        return staged.bytes if await _is_ratified(staged, staged.bytes) else None
    found = await _ratified_at(ports, place, staged, publish.source)
    return found if found is not None else await _ratified_at(ports, place, staged, publish.target)


async def _ratified_at(ports: Ports, place: str, staged: Staged, path: str) -> bytes | None:
    """What lies there, if it is what was ratified."""
    try:
        data = await ports.storage.read(place, path, limit=staged.size)
    except TooLarge:
        return None
    return data if data is not None and await _is_ratified(staged, data) else None


def _is_going(chain: tuple[Securable, ...]) -> bool:
    """Whether the table is being purged, or is gone."""
    return not chain or any(part.purged for part in chain)


async def _is_ratified(staged: Staged, data: bytes) -> bool:
    return len(data) == staged.size and (not staged.digest or await digest_of(data) == staged.digest)


def _altered(staged: Staged, path: str) -> Damaged:
    return Damaged(
        f"{path} of table {staged.table} is not what was ratified as version {staged.version}; "
        "its publishing stops here until the right bytes are restored"
    )
