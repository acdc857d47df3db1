"""Starts pipelines that are due: by their schedule, or because a table that they read has a new version.

Every server does this. It reads the pipelines once, and then follows the feed. The dedupe key of a run makes the
requests of several servers one job, and commits that come during a run become one further run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from moorage.core.callers import SYSTEM, Caller
from moorage.core.cron import next_time, parse_schedule
from moorage.core.entries import Commit, Create, Drop, Entry, Rename, Undrop, Update
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.pipelines import SOURCES, definition_of
from moorage.core.securables import Kind, Securable, Shelf
from moorage.usecases.catalog.addresses import Address, find_chain
from moorage.usecases.catalog.walks import objects_on
from moorage.usecases.local_state import CacheKind
from moorage.usecases.parts import Part
from moorage.usecases.pipelines.pipelines import heads_of, prepare_run
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.upkeep.jobs import settle_job

_PAGE: Final = 100
_RELOAD_MS: Final = 60_000
"""Objects above a pipeline may be renamed or dropped, so the pipelines are read again from time to time."""


class Watch(msgspec.Struct, kw_only=True):
    """A pipeline with a trigger."""

    address: Address
    sources: tuple[str, ...]
    source_ids: frozenset[SecurableId]
    schedule: str | None
    due_ms: int | None


class Watches(msgspec.Struct, kw_only=True):
    """What this server knows about pipelines with triggers, as of an entry of the ledger."""

    seq: int
    at_ms: int
    by_id: dict[SecurableId, Watch]
    waiting: set[SecurableId] = msgspec.field(default_factory=set)
    """Pipelines with a new version of a source that the open run may have missed. They are tried again."""


_WATCHES: Final = CacheKind[str, Watches]("pipelines with triggers", limit=1)


async def start_due_pipelines(ports: Ports) -> int:
    """Enqueue a run of every pipeline that is due. Returns the number of runs enqueued."""
    watches = ports.local.cache(_WATCHES).get("all")
    if watches is None or ports.now_ms() - watches.at_ms > _RELOAD_MS:
        watches = await _load(ports, watches)
        touched = set(watches.by_id)
    else:
        watches, touched = await _follow(ports, watches)
    touched |= watches.waiting
    watches.waiting = set()
    started = 0
    for id, watch in watches.by_id.items():
        if watch.due_ms is not None and ports.now_ms() >= watch.due_ms:
            watch.due_ms = next_time(parse_schedule(watch.schedule or ""), ports.now_ms())
            started += await _start(ports, watch, "schedule")
        elif id in touched and watch.source_ids and await _has_moved(ports, id, watch):
            new = await _start(ports, watch, "change")
            started += new
            if not new:
                watches.waiting.add(id)
    return started


async def _follow(ports: Ports, watches: Watches) -> tuple[Watches, set[SecurableId]]:
    """Read the entries since the last time, and find the pipelines of which a source has a new version."""
    moved: set[SecurableId] = set()
    while entries := await ports.ledger.entries(watches.seq, limit=_PAGE):
        if any(_concerns_pipelines(entry, watches) for entry in entries):
            watches = await _load(ports, watches)
            return watches, set(watches.by_id)
        for entry in entries:
            moved.update(change.table for change in entry.body.changes if isinstance(change, Commit))
        watches.seq = entries[-1].seq
    return watches, {id for id, watch in watches.by_id.items() if watch.source_ids & moved}


def _concerns_pipelines(entry: Entry, watches: Watches) -> bool:
    for change in entry.body.changes:
        if isinstance(change, Create) and _is_awaited(change, watches):
            return True
        if isinstance(change, Update | Rename | Drop | Undrop) and change.id in watches.by_id:
            return True
    return False


def _is_awaited(created: Create, watches: Watches) -> bool:
    """Whether it is a pipeline, or a table whose name a pipeline reads."""
    if created.kind is not Kind.TABLE:
        return created.kind is Kind.PIPELINE
    name = name_key(created.name)
    names = (source for watch in watches.by_id.values() for source in watch.sources)
    return any(name_key(source.rsplit(".", 1)[-1]) == name for source in names)


async def _has_moved(ports: Ports, id: SecurableId, watch: Watch) -> bool:
    """Whether a source has another version than when the last run was enqueued."""
    last = await ports.ledger.jobs(subject=id, limit=1, descending=True)
    heads = await heads_of(ports, watch.sources)
    return bool(heads) and (not last or last[0].args.get(SOURCES) != heads)


async def _start(ports: Ports, watch: Watch, reason: str) -> int:
    enqueued = 0

    async def prepare(_: Caller) -> list[Part]:
        nonlocal enqueued
        part = await prepare_run(ports, SYSTEM, watch.address, {"reason": reason})
        enqueued = len(part.jobs)
        return [part]

    await settle_job(ports, Errand(caller=SYSTEM, api="chores", request="pipelines"), prepare)
    return enqueued


async def _load(ports: Ports, before: Watches | None) -> Watches:
    """Read all pipelines. A schedule that was due already stays due."""
    position = await ports.ledger.position()
    found = Watches(seq=position.seq, at_ms=ports.now_ms(), by_id={})
    async for path, pipeline in _pipelines(ports):
        definition = definition_of(pipeline.doc)
        if not definition.on_change and definition.schedule is None:
            continue
        sources = definition.source_tables if definition.on_change else ()
        known = None if before is None else before.by_id.get(pipeline.id)
        due_ms = None
        if definition.schedule is not None:
            kept = known is not None and known.schedule == definition.schedule
            due_ms = known.due_ms if kept and known else next_time(parse_schedule(definition.schedule), ports.now_ms())
        found.by_id[pipeline.id] = Watch(
            address=Address(Kind.PIPELINE, (*path, pipeline.name)),
            sources=sources,
            source_ids=frozenset([id for _, id in await _ids(ports, sources)]),
            schedule=definition.schedule,
            due_ms=due_ms,
        )
    ports.local.cache(_WATCHES).put("all", found)
    return found


async def _ids(ports: Ports, sources: tuple[str, ...]) -> list[tuple[str, SecurableId]]:
    found = []
    for source in sources:
        path = tuple(source.split("."))
        chain = (await find_chain(ports.ledger, Address(Kind.TABLE, path))).chain
        if len(chain) == len(path):
            found.append((source, chain[-1].id))
    return found


async def _pipelines(ports: Ports) -> AsyncIterator[tuple[tuple[str, ...], Securable]]:
    """All pipelines with the names of their ancestors."""
    async for chain in objects_on(ports, Shelf.PIPELINE):
        yield tuple(part.name for part in chain[:-1]), chain[-1]
