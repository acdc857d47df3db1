"""Holds: versions of a table that are still needed, so that no expiry makes them unavailable.

Each hold has a reason, which the job that meets it records. A hold ends with its cause: the share, the projection, the
pipeline or the job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import msgspec

from moorage.core.entries import JobState
from moorage.core.ids import SecurableId
from moorage.core.jobs import COMPACT
from moorage.core.names import name_key
from moorage.core.pipelines import SOURCES, Definition, definition_of
from moorage.core.securables import MAIN, Shelf
from moorage.core.shares import details_of
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.catalog.walks import children, objects_on
from moorage.usecases.ports import Ports

_PAGE: Final = 1000
_RUNS: Final = 20
"""The runs of a pipeline that are read at once. Mostly the newest one has succeeded."""


class Hold(msgspec.Struct, frozen=True):
    """A version that must stay available, and all later ones, with the reason."""

    version: int
    reason: str


async def holds_on(ports: Ports, chain: Chain) -> tuple[Hold, ...]:
    """What holds the versions of a table. `chain` is the table below its ancestors."""
    sources = (_by_shares, _by_projection, _by_pipelines, _by_jobs)
    return tuple([hold for source in sources async for hold in source(ports, chain)])


async def _by_shares(ports: Ports, chain: Chain) -> AsyncIterator[Hold]:
    """A share with history promises all versions from its start version on, also to streams of its recipients."""
    ids = {each.id for each in chain}
    async for share in children(ports, ports.ledger.root, Shelf.SHARE):
        async for shared in children(ports, share.id, Shelf.SHARED_OBJECT):
            details = details_of(shared)
            if details.history and details.target in ids:
                yield Hold(details.start_version or 0, f"share '{share.name}' shares the history of the table")


async def _by_projection(ports: Ports, chain: Chain) -> AsyncIterator[Hold]:
    """Clients of another format read the last version that was converted for them."""
    found = ports.formats.of(chain[-1])
    if found.converter is None or found.readable_as(chain[-1], chain[:-1]) is None:
        return
    last = await found.converter.last_projection(ports, chain[-1])
    if last is not None:
        yield Hold(last.version, f"{last.format} clients read version {last.version}, the last one that was converted")


async def _by_pipelines(ports: Ports, chain: Chain) -> AsyncIterator[Hold]:
    """A stream continues after the version that it has read. Its last successful run began at this version or later."""
    name = name_key(".".join(each.name for each in chain))
    async for above in objects_on(ports, Shelf.PIPELINE):
        if not _streams(definition_of(above[-1].doc), name):
            continue
        version = await _position(ports, above[-1].id, name)
        if version is not None:
            yield Hold(version, f"pipeline '{above[-1].name}' reads the table as a stream")


def _streams(definition: Definition, name: str) -> bool:
    flows = (flow for flow in definition.flows if flow.target in definition.tables)
    return any(name_key(source) == name for flow in flows for source in flow.reads)


async def _position(ports: Ports, pipeline: SecurableId, name: str) -> int | None:
    """The version of the table when the last successful run was enqueued, or else the first one that is known."""
    version, after = None, ""
    while runs := await ports.ledger.jobs(subject=pipeline, after=after, limit=_RUNS, descending=True):
        for run in runs:
            heads = {name_key(source): head for source, head in (run.args.get(SOURCES) or {}).items()}
            version = heads.get(name, version)
            if run.state is JobState.SUCCEEDED:
                return version
        after = runs[-1].id
    return version


async def _by_jobs(ports: Ports, chain: Chain) -> AsyncIterator[Hold]:
    """A compaction reads files of the version at which it planned. It began after its job was created."""
    for job in await ports.ledger.jobs(subject=chain[-1].id, state=JobState.RUNNING, limit=_PAGE):
        if job.kind == COMPACT:
            version = await _version_at(ports, chain, job.created_at_ms)
            yield Hold(version, f"job '{job.id}' rewrites files of the table")


async def _version_at(ports: Ports, chain: Chain, at_ms: int) -> int:
    """The newest version that was ratified by a moment, or the oldest one of the last page before it."""
    last = None
    while page := await ports.ledger.versions(chain[-1].id, MAIN, last=last, limit=_PAGE, descending=True):
        for each in page:
            if each.at_ms <= at_ms:
                return each.version
        if page[-1].version == 0:
            break
        last = page[-1].version - 1
    return 0
