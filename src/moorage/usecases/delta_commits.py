"""The commit authority for Delta: a staged commit is checked, ratified as the next version, and published.

The order of the checks is the order of the answers: fields, table, replay, a taken version, a gap, and only
then the file. So the loser of a race hears that it lost, even when its staged file is already gone.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import Final

import msgspec
from msgspec.structs import replace

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Attachment, Change, Commit, Done, Expect, HeadIs, Publish, RevisionIs, Update
from moorage.core.errors import InvalidInput, MoorageError, TableNotFound, VersionTaken
from moorage.core.ids import SecurableId, is_id
from moorage.core.places import place
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Head, Kind, Securable
from moorage.formats.delta.claims import Claim, require_agreement
from moorage.formats.delta.commit_check import (
    Proposal,
    Surroundings,
    check_commit,
    require_fields,
    version_kind,
)
from moorage.formats.delta.contract import TableState, is_same_table, next_state
from moorage.formats.delta.paths import inside_of
from moorage.formats.delta.uniform import IcebergBlock, require_uniform
from moorage.ledger.port import Version
from moorage.usecases.delta_tables import DELTA, LARGEST_COMMIT, STATE, described
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settle import Part, settle

log = logging.getLogger(__name__)

STAGED_FOLDER: Final = "_delta_log/_staged_commits/"
UNIFORM: Final = "uniform"
"""In a table's details: where its newest Iceberg metadata lies, as a client told."""
KEPT_BYTES: Final = 1024 * 1024
"""Commits up to this size are kept in the ledger until they are published; of larger ones only the digest."""
_ASK_AGAIN_MS: Final = 60 * 60 * 1000
"""A reader lists the folder, then asks us. For this long it is told of a commit that it may have missed."""
_PAGE: Final = 1000


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, a claim that versions were published, or both."""

    table_id: str
    table_uri: str | None = None
    proposal: Proposal | None = None
    published: int | None = None
    claim: Claim | None = None
    uniform: IcebergBlock | None = None
    has_uniform: bool = False
    upkeep: bool = False


class _Replay(Exception):
    """This very commit is history already."""


async def commit(ports: Ports, errand: Errand, request: Request) -> Securable:
    """Ratify the proposal, or note what was published; the table afterwards."""
    if request.proposal is not None:
        require_fields(request.proposal)
    elif request.published is None:
        raise InvalidInput("the request neither commits nor says what was published", field="commit_info")
    elif request.claim is not None or request.has_uniform:
        raise InvalidInput("metadata and uniform belong to a commit; there is none", field="metadata")
    if request.published is not None and request.published < 0:
        raise InvalidInput(f"the published version {request.published} is negative", field="latest_published_version")
    if request.proposal is None:
        chain = await managed_table(ports, errand.caller, request.table_id, request.table_uri, Privilege.MODIFY)
        await _claim(ports, chain[-1], request.published or 0, alone=True)
    else:
        await _ratify(ports, errand, request)
    return (await ports.ledger.lineage(SecurableId(request.table_id))).chain[-1]


async def _ratify(ports: Ports, errand: Errand, request: Request) -> None:
    async def prepare() -> tuple[Part]:
        return (await prepare_commit(ports, errand.caller, request),)

    try:
        settled = await settle(ports, errand, prepare)
    except _Replay:
        return  # whatever else it carries was applied with the first sending
    if request.published is not None and not settled.receipt.replayed:
        chain = (await ports.ledger.lineage(SecurableId(request.table_id))).chain
        await _claim(ports, chain[-1], request.published, alone=False)


async def prepare_commit(ports: Ports, caller: Caller, request: Request) -> Part:
    """The part that makes a staged commit the next version of its table."""
    if (proposal := request.proposal) is None:
        raise InvalidInput("there is no commit", field="commit_info")
    chain = await managed_table(ports, caller, request.table_id, request.table_uri, Privilege.MODIFY)
    table = chain[-1]
    head = _head(table)
    await _require_next(ports, table, head, proposal)
    location = table.doc.location or ""
    data = await ports.storage.read(
        location, STAGED_FOLDER + proposal.file_name, limit=min(proposal.file_size, LARGEST_COMMIT) + 1
    )
    if data is None:
        raise InvalidInput(f"the staged file {proposal.file_name} does not exist", field="file_name")
    inside = inside_of(location)
    around = Surroundings(
        head_timestamp_ms=head.timestamp_ms, now_ms=ports.now_ms(), inside=inside, upkeep=request.upkeep
    )
    found = check_commit(data, proposal, around)
    before = state_of(table)
    after = next_state(before, found, version=proposal.version, timestamp_ms=proposal.timestamp_ms, table_id=table.id)
    if request.claim is not None:
        require_agreement(request.claim, after)
    doc = table.doc if is_same_table(before, after) else described(table.doc, after)
    if request.has_uniform:
        block = require_uniform(
            request.uniform, version=proposal.version, configuration=after.configuration, inside=inside
        )
        doc = replace(doc, details={**doc.details, UNIFORM: msgspec.to_builtins(block)})
    return _part(
        table,
        head,
        proposal,
        data,
        operation=version_kind(found.commit_info, found.summary).value,
        mark=after.row_id_mark,
        doc_change=() if doc is table.doc else (Update(id=table.id, doc=doc),),
    )


def _part(
    table: Securable,
    head: Head,
    proposal: Proposal,
    data: bytes,
    *,
    operation: str,
    mark: int | None,
    doc_change: tuple[Change, ...],
) -> Part:
    ratified = Commit(
        table=table.id,
        version=proposal.version,
        operation=operation,
        file=proposal.file_name,
        size=proposal.file_size,
        digest=sha256(data).hexdigest(),
        timestamp_ms=proposal.timestamp_ms,
        row_id_mark=mark,
        publish=Publish(target=f"_delta_log/{proposal.version:020}.json", source=STAGED_FOLDER + proposal.file_name),
        details={"modified_ms": proposal.file_modified_ms},
    )
    expects: tuple[Expect, ...] = (HeadIs(table.id, MAIN, head.version),)
    if doc_change:
        expects = (*expects, RevisionIs(table.id, table.revision))
    kept = data if len(data) <= KEPT_BYTES else None
    return Part(
        expects=expects,
        changes=(ratified, *doc_change),
        attachments=(Attachment(table=table.id, ref=MAIN, version=proposal.version, staged=kept),),
        done=Done(ids=(table.id,), versions=(proposal.version,)),
        before=table,
    )


async def _require_next(ports: Ports, table: Securable, head: Head, proposal: Proposal) -> None:
    """The proposal follows the head; else a replay, a lost race or a gap, in this order."""
    if proposal.version == head.version + 1:
        return
    if proposal.version > head.version + 1:
        raise InvalidInput(
            f"version {proposal.version} skips {head.version + 1}; the latest is {head.version}",
            field="version",
            latest=head.version,
        )
    first = await ports.ledger.versions(table.id, MAIN, first=proposal.version, last=proposal.version)
    if first and first[0].file == proposal.file_name:
        raise _Replay
    raise VersionTaken(
        f"version {proposal.version} is taken; the latest is {head.version}", field="version", latest=head.version
    )


async def _claim(ports: Ports, table: Securable, version: int, *, alone: bool) -> None:
    """Believe that versions up to this one were published, once each of them was found as it was ratified.

    Alone, a claim that cannot be believed is refused. Beside a commit it is not worth failing it: the
    client lists its folder and may name a version that it has just lost.
    """
    head = _head(table)
    try:
        if head.version == 0:
            raise InvalidInput("the table has no commit that could be published", field="latest_published_version")
        if version > head.version:
            raise InvalidInput(
                f"version {version} was never ratified; the latest is {head.version}", field="latest_published_version"
            )
        if version > (head.published or 0):
            await _require_published(ports, table, (head.published or 0) + 1, version)
    except InvalidInput:
        if alone:
            raise
        return
    if version > head.claimed:
        await ports.ledger.published(table.id, MAIN, version, claimed=True)


async def _require_published(ports: Ports, table: Securable, first: int, last: int) -> None:
    for ratified in await ports.ledger.versions(table.id, MAIN, first=first, last=last, limit=last - first + 1):
        path = f"_delta_log/{ratified.version:020}.json"
        data = await ports.storage.read(table.doc.location or "", path, limit=LARGEST_COMMIT)
        if data is None:
            raise InvalidInput(f"{path} does not exist, so it is not published", field="latest_published_version")
        if sha256(data).hexdigest() != ratified.digest:
            log.error(
                "%s is not what was ratified", path, extra={"fields": {"table": table.id, "version": ratified.version}}
            )
            raise InvalidInput(f"{path} is not what was ratified", field="latest_published_version")


async def unpublished(
    ports: Ports, table: Securable, *, first: int = 1, last: int | None = None
) -> tuple[Version, ...]:
    """The ratified versions that a reader must be told of, from the lowest on, without a gap."""
    head = _head(table)
    horizon_ms = ports.now_ms() - _ASK_AGAIN_MS
    known = head.claimed
    while True:
        found = await ports.ledger.versions(table.id, MAIN, first=max(first, known + 1), last=last, limit=_PAGE)
        told = tuple(row for row in found if row.version > (head.published or 0) or row.at_ms >= horizon_ms)
        if told or len(found) < _PAGE:
            return told
        known = found[-1].version


async def get_commits(
    ports: Ports, caller: Caller, table_id: str, table_uri: str | None, *, first: int, last: int | None
) -> tuple[tuple[Version, ...], int]:
    """The unpublished commits between two versions, and the latest version: -1 for a table that is not ours."""
    if first < 0:
        raise InvalidInput(f"start_version {first} is negative", field="start_version")
    if last is not None and last < first:
        raise InvalidInput(f"end_version {last} lies before start_version {first}", field="end_version")
    chain = await find_table(ports, caller, table_id, Privilege.BROWSE)
    table = chain[-1]
    if table_uri is not None:
        _require_uri(table, table_uri)
    if not is_managed(table):
        return (), -1
    return await unpublished(ports, table, first=max(first, 1), last=last), _head(table).version


async def find_table(ports: Ports, caller: Caller, table_id: str, privilege: Privilege) -> tuple[Securable, ...]:
    """The live table of an id with its ancestors."""
    if not table_id:
        raise InvalidInput("table_id is required", field="table_id")
    if not is_id(table_id.lower()):
        raise InvalidInput(f"table_id {table_id!r} is no UUID", field="table_id")
    chain = (await ports.ledger.lineage(SecurableId(table_id.lower()))).chain
    if not chain or chain[-1].kind is not Kind.TABLE or not all(part.is_live for part in chain):
        raise TableNotFound(f"no table has the id '{table_id}'", id=table_id)
    require(ports.access, caller, privilege, chain)
    return chain


async def managed_table(
    ports: Ports, caller: Caller, table_id: str, table_uri: str | None, privilege: Privilege
) -> tuple[Securable, ...]:
    """The same for a table whose commits are ours to ratify."""
    chain = await find_table(ports, caller, table_id, privilege)
    table = chain[-1]
    if table.doc.table is None or table.doc.table.format != DELTA:
        raise InvalidInput(f"'{table.name}' is no Delta table", field="table_id")
    if not is_managed(table):
        raise InvalidInput(f"'{table.name}' is an external table; its commits are not ours", field="table_id")
    if table_uri is not None:
        _require_uri(table, table_uri)
    return chain


def is_managed(table: Securable) -> bool:
    return table.doc.table is not None and table.doc.table.managed and table.doc.table.format == DELTA


def _require_uri(table: Securable, uri: str) -> None:
    try:
        same = place(uri) == table.doc.location
    except MoorageError:
        same = False
    if not same:
        raise InvalidInput(f"table_uri {uri!r} is not where the table is", field="table_uri")


def _head(table: Securable) -> Head:
    if table.head is None:
        raise InvalidInput(f"'{table.name}' has no versions", field="table_id")
    return table.head


_MOST_STATES: Final = 4096
_states: dict[tuple[SecurableId, int], TableState] = {}
"""By table and revision, which never change their meaning: parsing a state costs more than a small commit."""


def state_of(table: Securable) -> TableState:
    """What the log says of the table; the mark of its row ids comes from its head."""
    state = _states.get((table.id, table.revision))
    if state is None:
        if len(_states) >= _MOST_STATES:
            _states.clear()
        state = _states[table.id, table.revision] = TableState.from_details(table.doc.details[STATE])
    mark = table.head.row_id_mark if table.head else None
    return state if mark == state.row_id_mark else replace(state, row_id_mark=mark)
