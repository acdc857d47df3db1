"""The commit authority for Delta: a staged commit is checked, ratified as the next version, and published.

The order of the checks is the order of the answers: fields, table, replay, a taken version, a gap, and only
then the file. So the loser of a race hears that it lost, even when its staged file is already gone.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import lru_cache
from typing import Final

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Attachment, Change, Commit, Done, Expect, HeadIs, Publish, RevisionIs, Update
from moorage.core.errors import Busy, InvalidInput, RevisionMoved, TooLarge
from moorage.core.history import changed
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Doc, Securable
from moorage.core.versions import Proposed, Verdict, is_behind, is_gap, may_repeat, ratify
from moorage.formats.delta.actions import CommitFile
from moorage.formats.delta.commit_check import (
    CommitContext,
    Proposal,
    check_commit,
    names_its_version,
    require_fields,
    version_kind,
)
from moorage.formats.delta.contract import TableState, changes_only_rows, next_state
from moorage.formats.delta.paths import path_check_for
from moorage.formats.delta.stated_metadata import StatedMetadata, require_agreement
from moorage.formats.delta.uniform import IcebergBlock, is_iceberg_enabled, require_uniform
from moorage.storage.digests import digest_of
from moorage.usecases.delta.history import Ratified, version_of
from moorage.usecases.delta.lookup import (
    LARGE_COMMIT,
    LARGEST_COMMIT,
    STAGED_FOLDER,
    UNIFORM,
    described,
    find_managed,
    head_of,
    published_name,
    state_of,
)
from moorage.usecases.delta.published import (
    record_published,
    record_published_beside_commit,
    require_nonnegative,
)
from moorage.usecases.delta.unratified import are_set_aside, set_aside_before
from moorage.usecases.local_state import CacheKind, LargeCommitQueue, TableIdQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

KEPT_BYTES: Final = 1024 * 1024
"""Commits up to this size are kept in the ledger until they are published; of larger ones only the digest, so their
staged file must be safe from a power cut before they are ratified."""
_HUGE: Final = 16 * 1024 * 1024
"""Commits of this size come one after another: several would take all memory and all threads, and be no faster."""


_inside_of = lru_cache(maxsize=4096)(path_check_for)


_NEWEST: Final = CacheKind[SecurableId, Commit]("newest delta commits", limit=4096)
"""What this server ratified last: most writers that lost a race ask for that version."""


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, a claim that versions were published, or both."""

    table_id: str | None
    table_uri: str | None = None
    """None where the request names the table in another way."""
    etag: str | None = None
    """If given, the table must still be the one that was read."""
    proposal: Proposal | None = None
    published: int | None = None
    stated: StatedMetadata | None = None
    uniform: IcebergBlock | None = None
    has_uniform: bool = False
    upkeep: bool = False


async def commit(ports: Ports, errand: Errand, request: CommitRequest) -> Securable:
    """Ratify the proposal, or note what was published; the table afterwards."""
    _require_sense(request)
    if request.proposal is not None:
        ratifying = _ratify(ports, errand, request)
        if request.proposal.file_size <= _HUGE:
            return await ratifying
        # A commit that takes longer than a request may take must go on without its request: the client retries, and
        # begun anew each time it would never be ratified.
        return await asyncio.shield(ports.local.start(ratifying))
    table = await find_managed(ports, errand.caller, request.table_id, request.table_uri, Privilege.MODIFY)
    await record_published(ports, table, request.published or 0)
    return await _reload(ports, table)


def _require_sense(request: CommitRequest) -> None:
    if request.proposal is not None:
        require_fields(request.proposal)
    elif request.stated is not None or request.has_uniform:
        field = "metadata" if request.stated is not None else "uniform"
        raise InvalidInput(f"{field} belongs to a commit; there is none", field=field)
    elif request.published is None:
        raise InvalidInput("the request neither commits nor says what was published", field="commit_info")
    if request.published is not None:
        require_nonnegative(request.published)


async def _ratify(ports: Ports, errand: Errand, request: CommitRequest) -> Securable:
    try:
        # Of the writers that race for a version all but one would have their files read and checked for nothing.
        async with ports.local.race(TableIdQueue(request.table_id or "")):
            settled = await settle(ports, errand, lambda caller: prepare_commit(ports, caller, request))
    except Busy as busy:
        # A conflict, not a fault: the client reads the table again.
        raise RevisionMoved(busy.message) from None
    if not settled.parts:
        return await find_managed(ports, errand.caller, request.table_id, None, Privilege.MODIFY)
    part = settled.parts[0]
    if is_replay(part) and part.before is not None:
        return part.before
    table, ratified = _after(part, settled.receipt.at_ms, errand.caller)
    ports.local.cache(_NEWEST).put(table.id, ratified)
    if request.published is None or request.published <= max(head_of(table).client_published, 0):
        return table
    await record_published_beside_commit(ports, table, request.published)
    return await _reload(ports, table)


def is_replay(part: Part) -> bool:
    """Whether a part is that of a commit which is history already: then it changes nothing."""
    return not part.changes


def _after(part: Part, at_ms: int, caller: Caller) -> tuple[Securable, Commit]:
    """The table as this commit made it: nobody else can have come between."""
    table, ratified = part.before, part.changes[0]
    if table is None or not isinstance(ratified, Commit):
        raise TypeError(f"not the part of a commit: {part}")
    for change in part.changes[1:]:
        table = changed(table, change, at_ms, caller.id)
    mark = ratified.row_id_mark
    head = head_of(table)
    moved = replace(
        head,
        version=ratified.version,
        timestamp_ms=ratified.timestamp_ms,
        row_id_mark=head.row_id_mark if mark is None else mark,
    )
    return replace(table, head=moved), ratified


async def _reload(ports: Ports, table: Securable) -> Securable:
    chain = (await ports.ledger.lineage(table.id)).chain
    return chain[-1] if chain else table


async def prepare_commit(ports: Ports, caller: Caller, request: CommitRequest) -> Part:
    """The part that makes a staged commit the next version of its table; without changes if it is one already."""
    if (proposal := request.proposal) is None:
        raise InvalidInput("there is no commit", field="commit_info")
    table = await find_managed(ports, caller, request.table_id, request.table_uri, Privilege.MODIFY)
    if await _verdict(ports, table, proposal) is Verdict.REPLAY:
        return Part(done=Done(ids=(table.id,), versions=(proposal.version,)), before=table)
    await _require_unused(ports, table, proposal.file_name)
    require_etag(table, request.etag)
    around = CommitContext(
        head_timestamp_ms=head_of(table).timestamp_ms,
        now_ms=ports.now_ms(),
        inside=_inside_of(table.doc.location or ""),
        upkeep=request.upkeep,
    )
    async with ports.local.queue(LargeCommitQueue()) if proposal.file_size > _HUGE else nullcontext():
        data = await _read_staged(ports, table, proposal)
        if len(data) > LARGE_COMMIT:
            found = await asyncio.to_thread(check_commit, data, proposal, around)
        else:
            found = check_commit(data, proposal, around)
        digest = await digest_of(data)
        if len(data) > KEPT_BYTES:
            await ports.storage.keep(table.doc.location or "", STAGED_FOLDER + proposal.file_name)
    doc, mark = _described_by(state_of(ports, table), table, found, proposal, request, around)
    await set_aside_before(ports, table, proposal.version, data)
    return _part(table, _ratified(table, proposal, found, mark, digest), data, doc)


async def _read_staged(ports: Ports, table: Securable, proposal: Proposal) -> bytes:
    """Not a byte more than the request says: a size is a promise, and a small one costs no thread."""
    if proposal.file_size > LARGEST_COMMIT:
        raise InvalidInput(f"a commit has at most {LARGEST_COMMIT >> 20} MB", field="file_size")
    path = STAGED_FOLDER + proposal.file_name
    try:
        data = await ports.storage.read(table.doc.location or "", path, limit=proposal.file_size)
    except TooLarge:
        raise InvalidInput(
            f"the staged file has more than the {proposal.file_size} bytes that the request says", field="file_size"
        ) from None
    if data is None:
        raise InvalidInput(f"the staged file {proposal.file_name} does not exist", field="file_name")
    return data


def _described_by(
    before: TableState,
    table: Securable,
    found: CommitFile,
    proposal: Proposal,
    request: CommitRequest,
    around: CommitContext,
) -> tuple[Doc, int | None]:
    """The table's record after the commit, and its row id high-water mark."""
    after = next_state(before, found, version=proposal.version, timestamp_ms=proposal.timestamp_ms, table_id=table.id)
    if request.stated is not None:
        require_agreement(request.stated, after)
    doc = table.doc if changes_only_rows(before, after) else described(table.doc, after, before)
    if request.has_uniform:
        block = require_uniform(
            request.uniform, version=proposal.version, configuration=after.configuration, inside=around.inside
        )
        doc = replace(doc, details={**doc.details, UNIFORM: msgspec.to_builtins(block)})
    elif UNIFORM in doc.details and not is_iceberg_enabled(after.configuration):
        doc = replace(doc, details={key: value for key, value in doc.details.items() if key != UNIFORM})
    return doc, after.row_id_mark


def _ratified(table: Securable, proposal: Proposal, found: CommitFile, mark: int | None, digest: str) -> Commit:
    return Commit(
        table=table.id,
        version=proposal.version,
        operation=version_kind(found.commit_info, found.summary).value,
        file=proposal.file_name,
        size=proposal.file_size,
        digest=digest,
        timestamp_ms=proposal.timestamp_ms,
        row_id_mark=mark,
        publish=Publish(target=published_name(proposal.version), source=STAGED_FOLDER + proposal.file_name),
        details={"modified_ms": proposal.file_modified_ms},
    )


def _part(table: Securable, ratified: Commit, data: bytes, doc: Doc) -> Part:
    # The revision too, always: a commit is judged by the state of the table that its record holds.
    expects: tuple[Expect, ...] = (
        HeadIs(table.id, MAIN, head_of(table).version),
        RevisionIs(table.id, table.revision),
    )
    described_anew: tuple[Change, ...] = () if doc is table.doc else (Update(id=table.id, doc=doc),)
    kept = data if len(data) <= KEPT_BYTES else None
    return Part(
        expects=expects,
        changes=(ratified, *described_anew),
        attachments=(Attachment(table=table.id, ref=MAIN, version=ratified.version, staged=kept),),
        done=Done(ids=(table.id,), versions=(ratified.version,)),
        before=table,
    )


async def _verdict(ports: Ports, table: Securable, proposal: Proposal) -> Verdict:
    """What becomes of the proposal at the table's head; `core.versions` decides."""
    head = head_of(table).version
    proposed = Proposed(
        version=proposal.version,
        file=proposal.file_name,
        size=proposal.file_size,
        timestamp_ms=proposal.timestamp_ms,
    )
    recorded, hint = None, ""
    if is_behind(head, proposal.version):
        recorded = await _ratified_as(ports, table.id, proposal.version)
        if recorded is not None and may_repeat(recorded, proposed):
            proposed = replace(proposed, digest=await _staged_digest(ports, table, proposal))
    elif is_gap(head, proposal.version) and await are_set_aside(ports, table, head):
        # Not a conflict, even after unratified files: the client would rebase what it computed from their rows.
        hint = "; the files after it were never ratified: load the table again"
    return ratify(head, proposed, recorded, hint=hint)


async def _staged_digest(ports: Ports, table: Securable, proposal: Proposal) -> str | None:
    try:
        return await digest_of(await _read_staged(ports, table, proposal))
    except InvalidInput:  # the file is gone
        return None


async def _require_unused(ports: Ports, table: Securable, file_name: str) -> None:
    """A staged file belongs to one version. Written anew for the next, it would show readers that one twice."""
    if names_its_version(file_name):
        return
    if (version := await version_of(ports, table, file_name)) is not None:
        raise InvalidInput(
            f"the staged file {file_name} is version {version} already; each commit needs a file of its own",
            field="file_name",
        )


async def _ratified_as(ports: Ports, table: SecurableId, version: int) -> Commit | Ratified | None:
    newest = ports.local.cache(_NEWEST).get(table)
    if newest is not None and newest.version == version:
        return newest
    found = await ports.ledger.versions(table, MAIN, first=version, last=version)
    return found[0] if found else None


def etag_of(table: Securable) -> str:
    """What changes whenever more than rows changed: a clock could give two changes the same."""
    return f"{table.id}-{table.revision}"


def require_etag(table: Securable, etag: str | None) -> None:
    if etag is not None and etag != etag_of(table):
        raise RevisionMoved(f"'{table.name}' has changed since it was read; load it again", field="etag")
