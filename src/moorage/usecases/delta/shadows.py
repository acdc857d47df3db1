"""What rewrites and changes of rows share: the log of a shadow, and the commit that its translation becomes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

from msgspec.structs import replace

import moorage
from moorage.core.callers import Caller
from moorage.core.entries import Change, Commit, Done
from moorage.core.errors import InvalidInput
from moorage.core.rewrites import OfferOutcome, OfferResult
from moorage.core.securables import Securable
from moorage.formats.delta.commit_check import Proposal
from moorage.formats.delta.offer_steps import Offered, log_of_shadow
from moorage.formats.delta.offers import Target
from moorage.formats.delta.shadow import TableSide, hadoop_location
from moorage.usecases.delta.commits import MAX_ATTACHED_BYTES, CommitRequest, prepare_bytes
from moorage.usecases.delta.compute import compute
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.leftovers import FOLDER, remove_unless_committed
from moorage.usecases.delta.lookup import LOG, MAX_COMMIT_BYTES, STAGED_FOLDER, require_head, state_of
from moorage.usecases.local_state import TableIdQueue
from moorage.usecases.parts import NewFile, Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, settle

if TYPE_CHECKING:
    from moorage.snapshots.snapshot import Snapshot

ENGINE: Final = f"Moorage/{moorage.__version__}"
_LOG_FILE = re.compile(r"(\d{20})\.json")


async def log_of(ports: Ports, snapshot: Snapshot, chosen: object, root: str) -> bytes:
    """The log of a shadow with these files of the snapshot."""
    from moorage.formats.delta.replay import packed

    return await compute(ports, log_of_shadow, await asyncio.to_thread(packed, chosen), side_of(snapshot), root)


def side_of(snapshot: Snapshot) -> TableSide:
    return TableSide(
        timestamp_ms=snapshot.timestamp_ms,
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        domains=snapshot.domains,
        transactions=snapshot.transactions,
    )


async def files_named(snapshot: Snapshot, paths: Collection[str], root: str) -> bytes:
    """The files of the snapshot with these absolute, decoded paths."""
    from moorage.formats.delta.bins import find_files
    from moorage.formats.delta.replay import FILES, packed

    if not paths:  # an append: to select the files of a large table would take as long as the rest of the offer
        return packed(FILES.empty_table())
    return await asyncio.to_thread(lambda: packed(find_files(snapshot.select(), paths, root)))


class OfferedCommit(NamedTuple):
    """The commit that Spark made in a shadow, and what was read in it."""

    data: bytes
    facts: Offered


def require_base(table: Securable, base_version: int) -> None:
    """Require the version of a shadow to be one of the table's."""
    head = require_head(table).version
    if base_version > head:
        raise InvalidInput(f"base_version {base_version} is above the head {head}", field="base_version")


async def read_log(ports: Ports, location: str, folder: str, *, max_age_ms: int | None = None) -> bytes | OfferResult:
    """The one commit that Spark made in the shadow, or why there is nothing to commit."""
    listed = await ports.storage.list(location, f"{folder}{LOG}")
    made_ms = min((each.modified_ms for each in listed), default=0)
    if listed and max_age_ms is not None and made_ms < ports.now_ms() - max_age_ms:
        hours = max_age_ms // 3_600_000
        return OfferResult(outcome=OfferOutcome.DROPPED, reason=f"the shadow is older than {hours} hours")
    names = [each.path.rpartition("/")[2] for each in listed]
    versions = sorted(int(found[1]) for name in names if (found := _LOG_FILE.fullmatch(name)))
    if versions == [0]:
        return OfferResult(outcome=OfferOutcome.UNCHANGED, reason="the shadow was not changed")
    if versions != [0, 1]:
        return OfferResult(
            outcome=OfferOutcome.DROPPED, reason=f"the shadow has the versions {versions}, not the versions 0 and 1"
        )
    data = await ports.storage.read(location, f"{folder}{LOG}{1:020}.json", limit=MAX_COMMIT_BYTES)
    if data is None:
        return OfferResult(outcome=OfferOutcome.DROPPED, reason="the commit of the shadow is missing")
    return data


async def require_written(ports: Ports, location: str, folder: str, stated: Iterable[tuple[str, int, bool]]) -> None:
    """Require every new file, in its stated size, and durable: the files that it replaces will be deleted one day.

    `stated` has paths in the folder, sizes, and whether the file may be larger, as that of several vectors is.
    """
    written = {each.path: each.size for each in await ports.storage.list(location, folder)}
    durable: set[str] = set()
    for name, size, at_least in stated:
        path = folder + name
        found = written.get(path)
        if found is None or (found < size if at_least else found != size):
            raise InvalidInput(
                f"the shadow cannot be offered: {name!r} has {found} bytes, not {size}",
                field="folder",
            )
        if path not in durable:
            await ports.storage.make_durable(location, path)
            durable.add(path)


async def settle_offer(
    ports: Ports,
    errand: Errand,
    table: Securable,
    folder: str,
    base_version: int,
    prepare: Callable[[Caller], Awaitable[Part]],
) -> OfferResult:
    """Commit what `prepare` makes of a shadow, and delete what is not needed after it."""
    # Not in the queue yet: a snapshot that is already loaded makes the wait of other writers short.
    await ports.snapshots.at(await table_ref(ports, table))
    async with ports.local.race(TableIdQueue(table.id)):
        result = result_of(await settle(ports, errand, prepare))
        if result.outcome is not OfferOutcome.COMMITTED:
            return await _delete_unless_committed(ports, table, folder, base_version, result)
    await ports.storage.delete_all(f"{table.doc.location or ''}{folder}{LOG}")
    return result


async def give_up(ports: Ports, table: Securable, folder: str, base_version: int, result: OfferResult) -> OfferResult:
    """Delete a shadow without a commit, and return the result, unless an earlier request has committed the shadow."""
    async with ports.local.race(TableIdQueue(table.id)):
        return await _delete_unless_committed(ports, table, folder, base_version, result)


async def _delete_unless_committed(
    ports: Ports, table: Securable, folder: str, base_version: int, result: OfferResult
) -> OfferResult:
    # The response of an earlier request may be lost, and its idempotency key with it. A shadow that it has committed
    # looks like one that no longer applies, but its files belong to the table.
    version = await remove_unless_committed(ports, table, folder, first=base_version + 1)
    return result if version is None else OfferResult(outcome=OfferOutcome.COMMITTED, version=version)


def target_of(ports: Ports, table: Securable, snapshot: Snapshot, folder: str) -> Target:
    """The version that the commit of a shadow is to become. The snapshot is that of the head."""
    state, head = state_of(ports, table), require_head(table)
    return Target(
        folder=folder,
        root=hadoop_location(table.doc.location or ""),
        version=head.version + 1,
        timestamp_ms=max(ports.now_ms(), head.timestamp_ms + 1),
        txn_id=str(uuid4()),
        engine=ENGINE,
        tracks_rows=state.tracks_rows(),
        row_id_mark=state.row_id_mark,
        schema=snapshot.schema,
        partition_columns=snapshot.metadata.partition_columns,
    )


async def commit_part(ports: Ports, table: Securable, data: bytes, target: Target, *, upkeep: bool = False) -> Part:
    """Check a commit of the server as that of any writer, and return the part that ratifies it."""
    proposal = Proposal(
        version=target.version,
        timestamp_ms=target.timestamp_ms,
        file_name=f"{target.version:020}.{uuid4()}.json",
        file_size=len(data),
        file_modified_ms=target.timestamp_ms,
    )
    request = CommitRequest(table_id=table.id, proposal=proposal, upkeep=upkeep)
    part = await prepare_bytes(ports, table, request, proposal, data)
    is_small = len(data) <= MAX_ATTACHED_BYTES
    staged = NewFile(table.doc.location or "", STAGED_FOLDER + proposal.file_name, data, is_small)
    changes = _with_folder(part.changes, target.folder) if target.folder else part.changes
    return replace(part, changes=changes, files=(staged,))


def _with_folder(changes: tuple[Change, ...], folder: str) -> tuple[Change, ...]:
    """Record the folder of the shadow with its version, so that leftovers can be told from committed files."""
    return tuple(
        replace(each, details={**each.details, FOLDER: folder}) if isinstance(each, Commit) else each
        for each in changes
    )


def dropped(reason: str) -> Part:
    return Part(done=Done(), result=OfferResult(outcome=OfferOutcome.DROPPED, reason=reason))


def unchanged(reason: str) -> Part:
    return Part(done=Done(), result=OfferResult(outcome=OfferOutcome.UNCHANGED, reason=reason))


def result_of(settled: Settled) -> OfferResult:
    versions = settled.done.versions
    stated = settled.parts[0].result if settled.parts else None
    if versions:
        found = stated if isinstance(stated, OfferResult) else OfferResult(outcome=OfferOutcome.COMMITTED)
        return replace(found, version=versions[0])
    if isinstance(stated, OfferResult):
        return stated
    return OfferResult(outcome=OfferOutcome.DROPPED, reason="the table changed while the shadow was rewritten")
