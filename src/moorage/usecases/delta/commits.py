"""Delta commits: the server checks a staged commit, ratifies it as the next version, and publishes it.

The order of the checks decides which error a client receives: fields, table, replay, taken version, gap, and only then
the file. So a writer that lost a race receives the conflict, even if its staged file was already deleted.
"""

from __future__ import annotations

import asyncio
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
from moorage.formats.delta.commit_check import (
    CommitContext,
    Proposal,
    names_its_version,
    require_fields,
)
from moorage.formats.delta.contract import TableState, changes_only_rows
from moorage.formats.delta.stated_metadata import StatedMetadata, require_agreement
from moorage.formats.delta.uniform import IcebergBlock, is_iceberg_enabled, require_uniform
from moorage.formats.delta.whole_check import Checked, check_next
from moorage.storage.digests import digest_of
from moorage.usecases.delta.claims import is_contradicted, require_conversion
from moorage.usecases.delta.compute import check
from moorage.usecases.delta.history import RatifiedCommit, version_of_staged_file
from moorage.usecases.delta.lookup import (
    MAX_COMMIT_BYTES,
    STAGED_FOLDER,
    UNIFORM,
    apply_state,
    find_managed,
    published_path,
    require_head,
    state_of,
)
from moorage.usecases.delta.published import (
    record_published,
    record_published_with_commit,
    require_nonnegative,
)
from moorage.usecases.delta.unratified import set_aside_after_head, set_aside_before_commit
from moorage.usecases.local_state import CacheKind, LargeCommitQueue, TableIdQueue
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle

MAX_ATTACHED_BYTES: Final = 1024 * 1024
"""The ledger stores the bytes of commits up to this size until they are published. For a larger commit it stores only
the digest, so the staged file must be durable before the commit is ratified."""
_HUGE_COMMIT_BYTES: Final = 16 * 1024 * 1024
"""Larger commits are checked one at a time: several together would use all memory and threads, and be no faster."""


_NEWEST_COMMITS: Final = CacheKind[SecurableId, Commit]("newest delta commits", limit=4096)
"""The commit that this server ratified last. Most writers that lost a race propose that version."""


class CommitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, a version up to which the client published, or both."""

    table_id: str | None
    table_uri: str | None = None
    """None if the request identifies the table in another way."""
    etag: str | None = None
    """If given, the table must be unchanged since the client read it."""
    proposal: Proposal | None = None
    published: int | None = None
    stated: StatedMetadata | None = None
    uniform: IcebergBlock | None = None
    has_uniform: bool = False
    upkeep: bool = False


async def commit(ports: Ports, errand: Errand, request: CommitRequest) -> Securable:
    """Ratify the proposal, if any, and record what the client published. Return the table."""
    _require_valid(request)
    if request.proposal is not None:
        ratification = _ratify(ports, errand, request)
        if request.proposal.file_size <= _HUGE_COMMIT_BYTES:
            return await ratification
        # The check of a huge commit may exceed the request timeout, so it continues without its request. If every
        # retry restarted it, the commit would never be ratified.
        return await asyncio.shield(ports.local.start(ratification))
    table = await find_managed(ports, errand.caller, request.table_id, request.table_uri, Privilege.MODIFY)
    await record_published(ports, table, request.published or 0)
    return await _reload(ports, table)


def _require_valid(request: CommitRequest) -> None:
    if request.proposal is not None:
        require_fields(request.proposal)
    elif request.stated is not None or request.has_uniform:
        field = "metadata" if request.stated is not None else "uniform"
        raise InvalidInput(f"{field} is allowed only in a request that contains a commit", field=field)
    elif request.published is None:
        raise InvalidInput(
            "the request contains neither a commit nor a published version; send one of them", field="commit_info"
        )
    if request.published is not None:
        require_nonnegative(request.published)


async def _ratify(ports: Ports, errand: Errand, request: CommitRequest) -> Securable:
    try:
        # Only one of the writers that race for a version can win. The queue saves reading and checking the files of
        # the others.
        async with ports.local.race(TableIdQueue(request.table_id or "")):
            settled = await settle(ports, errand, lambda caller: prepare_commit(ports, caller, request))
    except Busy as busy:
        # A conflict, not a server fault: the client reads the table again and retries.
        raise RevisionMoved(busy.message) from None
    if not settled.parts:
        return await find_managed(ports, errand.caller, request.table_id, None, Privilege.MODIFY)
    part = settled.parts[0]
    if part.is_replay and part.before is not None:
        return part.before
    table, ratified = _table_after(part, settled.receipt.at_ms, errand.caller)
    ports.local.cache(_NEWEST_COMMITS).put(table.id, ratified)
    ports.local.unconverted.add(table.id)
    if request.published is None or request.published <= max(require_head(table).client_published, 0):
        return table
    await record_published_with_commit(ports, table, request.published)
    return await _reload(ports, table)


def _table_after(part: Part, at_ms: int, caller: Caller) -> tuple[Securable, Commit]:
    """The table and its new commit. The part expects head and revision, so nothing else changed."""
    table, ratified = part.before, part.changes[0]
    if table is None or not isinstance(ratified, Commit):
        raise TypeError(f"the part does not contain a commit: {part}")
    for change in part.changes[1:]:
        table = changed(table, change, at_ms, caller.id)
    high_water_mark = ratified.row_id_mark
    head = require_head(table)
    new_head = replace(
        head,
        version=ratified.version,
        timestamp_ms=ratified.timestamp_ms,
        row_id_mark=head.row_id_mark if high_water_mark is None else high_water_mark,
    )
    return replace(table, head=new_head), ratified


async def _reload(ports: Ports, table: Securable) -> Securable:
    chain = (await ports.ledger.lineage(table.id)).chain
    return chain[-1] if chain else table


async def prepare_commit(ports: Ports, caller: Caller, request: CommitRequest) -> Part:
    """Check a staged commit and return the part that ratifies it, without changes if it was ratified before."""
    if (proposal := request.proposal) is None:
        raise InvalidInput("the request contains no commit", field="commit_info")
    table = await find_managed(ports, caller, request.table_id, request.table_uri, Privilege.MODIFY)
    if await _verdict(ports, table, proposal) is Verdict.REPLAY:
        return Part(done=Done(ids=(table.id,), versions=(proposal.version,)), before=table)
    await _require_unused(ports, table, proposal.file_name)
    require_etag(table, request.etag)
    if proposal.file_size <= _HUGE_COMMIT_BYTES:
        return await _prepare_staged(ports, table, request, proposal)
    async with ports.local.queue(LargeCommitQueue()):
        return await _prepare_staged(ports, table, request, proposal)


async def _prepare_staged(ports: Ports, table: Securable, request: CommitRequest, proposal: Proposal) -> Part:
    data = await _read_staged(ports, table, proposal)
    part = await prepare_bytes(ports, table, request, proposal, data)
    if len(data) > MAX_ATTACHED_BYTES:
        await ports.storage.make_durable(table.doc.location or "", STAGED_FOLDER + proposal.file_name)
    return part


async def prepare_bytes(
    ports: Ports, table: Securable, request: CommitRequest, proposal: Proposal, data: bytes
) -> Part:
    """Check the bytes of a commit and return the part that ratifies them as the next version."""
    context = CommitContext(
        head_timestamp_ms=require_head(table).timestamp_ms,
        now_ms=ports.now_ms(),
        location=table.doc.location or "",
        upkeep=request.upkeep,
    )
    before = state_of(ports, table)
    checked = await check(ports, check_next, data, proposal, context, before, table.id)
    digest = await digest_of(data)
    if request.uniform is not None:
        root, version = table.doc.location or "", proposal.version
        await require_conversion(ports, context.inside, root, request.uniform, version, data=data, table=table)
    doc = _doc_after(before, checked.state, table, proposal, request, context)
    if not request.has_uniform and await is_contradicted(ports, context.inside, table, proposal.version, data):
        doc = _without_uniform(doc)
    await set_aside_before_commit(ports, table, proposal.version, data)
    return _commit_part(table, _commit_of(table, proposal, checked, digest), data, doc)


async def _read_staged(ports: Ports, table: Securable, proposal: Proposal) -> bytes:
    """Read the staged file, but no more than the stated size. Small files are then read without a thread."""
    if proposal.file_size > MAX_COMMIT_BYTES:
        raise InvalidInput(f"file_size exceeds the maximum of {MAX_COMMIT_BYTES >> 20} MB", field="file_size")
    path = STAGED_FOLDER + proposal.file_name
    try:
        data = await ports.storage.read(table.doc.location or "", path, limit=proposal.file_size)
    except TooLarge:
        raise InvalidInput(
            f"the staged file is larger than the stated file_size of {proposal.file_size} bytes", field="file_size"
        ) from None
    if data is None:
        raise InvalidInput(
            f"the staged file {proposal.file_name} does not exist; write it before the commit", field="file_name"
        )
    return data


def _doc_after(
    before: TableState,
    after: TableState,
    table: Securable,
    proposal: Proposal,
    request: CommitRequest,
    context: CommitContext,
) -> Doc:
    """The table's document after the commit."""
    if request.stated is not None:
        require_agreement(request.stated, after)
    doc = table.doc if changes_only_rows(before, after) else apply_state(table.doc, after, before)
    if request.has_uniform:
        block = require_uniform(
            request.uniform, version=proposal.version, configuration=after.configuration, inside=context.inside
        )
        doc = replace(doc, details={**doc.details, UNIFORM: msgspec.to_builtins(block)})
    elif UNIFORM in doc.details and not is_iceberg_enabled(after.configuration):
        doc = _without_uniform(doc)
    return doc


def _without_uniform(doc: Doc) -> Doc:
    return replace(doc, details={key: value for key, value in doc.details.items() if key != UNIFORM})


def _commit_of(table: Securable, proposal: Proposal, checked: Checked, digest: str) -> Commit:
    return Commit(
        table=table.id,
        version=proposal.version,
        operation=checked.kind.value,
        file=proposal.file_name,
        size=proposal.file_size,
        digest=digest,
        timestamp_ms=proposal.timestamp_ms,
        row_id_mark=checked.state.row_id_mark,
        publish=Publish(target=published_path(proposal.version), source=STAGED_FOLDER + proposal.file_name),
        details={"modified_ms": proposal.file_modified_ms},
    )


def _commit_part(table: Securable, ratified: Commit, data: bytes, doc: Doc) -> Part:
    # The revision is expected too, because the commit was checked against the state in the table's document.
    expects: tuple[Expect, ...] = (
        HeadIs(table.id, MAIN, require_head(table).version),
        RevisionIs(table.id, table.revision),
    )
    doc_changes: tuple[Change, ...] = () if doc is table.doc else (Update(id=table.id, doc=doc),)
    attached = data if len(data) <= MAX_ATTACHED_BYTES else None
    return Part(
        expects=expects,
        changes=(ratified, *doc_changes),
        attachments=(Attachment(table=table.id, ref=MAIN, version=ratified.version, staged=attached),),
        done=Done(ids=(table.id,), versions=(ratified.version,)),
        before=table,
    )


async def _verdict(ports: Ports, table: Securable, proposal: Proposal) -> Verdict:
    """Whether the proposal is the next version or a replay. `core.versions` decides, and raises for the rest."""
    head = require_head(table).version
    proposed = Proposed(
        version=proposal.version,
        file=proposal.file_name,
        size=proposal.file_size,
        timestamp_ms=proposal.timestamp_ms,
    )
    recorded, hint = None, ""
    if is_behind(head, proposal.version):
        recorded = await _recorded_commit(ports, table.id, proposal.version)
        if recorded is not None and may_repeat(recorded, proposed):
            proposed = replace(proposed, digest=await _staged_digest(ports, table, proposal))
    elif is_gap(head, proposal.version) and await set_aside_after_head(ports, table, head):
        # Not reported as a conflict: the client would rebase a result that it computed from unratified rows.
        hint = "; the log files after it were never ratified; load the table again"
    return ratify(head, proposed, recorded, hint=hint)


async def _staged_digest(ports: Ports, table: Securable, proposal: Proposal) -> str | None:
    try:
        return await digest_of(await _read_staged(ports, table, proposal))
    except InvalidInput:  # the file was deleted
        return None


async def _require_unused(ports: Ports, table: Securable, file_name: str) -> None:
    """Refuse a staged file of an announced version: readers would read the overwritten file for both versions."""
    if names_its_version(file_name):
        return
    if (version := await version_of_staged_file(ports, table, file_name)) is not None:
        raise InvalidInput(
            f"the staged file {file_name} is already used by version {version}; each commit needs its own file",
            field="file_name",
        )


async def _recorded_commit(ports: Ports, table: SecurableId, version: int) -> Commit | RatifiedCommit | None:
    newest = ports.local.cache(_NEWEST_COMMITS).get(table)
    if newest is not None and newest.version == version:
        return newest
    found = await ports.ledger.versions(table, MAIN, first=version, last=version)
    return found[0] if found else None


def etag_of(table: Securable) -> str:
    """A tag that changes whenever more than rows change. A timestamp could be the same for two changes."""
    return f"{table.id}-{table.revision}"


def require_etag(table: Securable, etag: str | None) -> None:
    if etag is not None and etag != etag_of(table):
        raise RevisionMoved(f"'{table.name}' has changed since the client read it; load the table again", field="etag")
