"""The commit authority for Iceberg: requirements are checked against the very state that is replaced.

Commits to one table wait for each other in this server, and those that wait go together (iceberg_groups). Should
another server be faster, all is checked and applied again on its result. So a conflict is only ever answered
when a requirement really failed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import Done, HeadIs, LocationFree, RevisionIs, Update
from moorage.core.errors import InvalidInput, MoorageError, RequirementFailed
from moorage.core.ids import SecurableId
from moorage.core.locations import assigned_location, enclosing_locations, external_location, parse_location
from moorage.core.names import require_name
from moorage.core.privileges import Privilege
from moorage.core.securables import FORMER_LOCATIONS, MAIN
from moorage.core.versions import VersionKind
from moorage.formats.iceberg.documents import Document, gained
from moorage.formats.iceberg.requirements import check_requirements, is_creation, require_known
from moorage.formats.iceberg.table_metadata import created_by, following, has_same_shape, updated
from moorage.usecases.catalog.addresses import Address, Chain, queue_of, reach_parent
from moorage.usecases.catalog.objects import require_staying
from moorage.usecases.catalog.staging import created_from_staging, find_stage
from moorage.usecases.iceberg.lookup import find_relation, head_of, taken
from moorage.usecases.iceberg.metadata_files import Metadata, fallen_files, metadata_of, new_metadata
from moorage.usecases.iceberg.relations import moved_place, unchanged, version_of
from moorage.usecases.iceberg.tables import commented, described, prepare_creation
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle
from moorage.usecases.settling.transact import ALONE, SameTransaction

MOST_TABLES = 100
"""In one transaction."""

_KINDS = {
    "append": VersionKind.APPEND,
    "replace": VersionKind.REWRITE,
    "overwrite": VersionKind.CHANGE,
    "delete": VersionKind.CHANGE,
}


class TableCommit(msgspec.Struct, frozen=True, kw_only=True):
    """What is to become of a table, provided that it is as the client believes."""

    address: Address
    requirements: Sequence[Document]
    updates: Sequence[Document]


async def commit_transaction(ports: Ports, errand: Errand, commits: Sequence[TableCommit]) -> None:
    """All commits in one entry, or none of them."""
    if not 0 < len(commits) <= MOST_TABLES:
        raise InvalidInput(f"a transaction changes 1 to {MOST_TABLES} tables", field="table-changes")
    for commit in commits:
        require_known(commit.requirements)
    queues = {queue_of(commit.address) for commit in commits}
    if len(queues) < len(commits):
        raise InvalidInput("a table occurs twice in the transaction; join its updates", field="table-changes")
    async with ports.local.queues(queues):
        await settle(ports, errand, lambda caller: _prepare_all(ports, caller, commits))


async def _prepare_all(ports: Ports, caller: Caller, commits: Sequence[TableCommit]) -> list[Part]:
    parts: list[Part] = []
    ids: set[str] = set()
    places: list[str] = []
    for index, commit in enumerate(commits):
        where = f"table-changes[{index}]"
        try:
            part = await prepare_commit(ports, caller, commit)
        except MoorageError as error:
            error.field = f"{where}.{error.field}" if error.field else where
            raise
        if not ids.isdisjoint(part.done.ids):
            raise InvalidInput(f"{where}: it was staged together with another table", field=where)
        ids.update(part.done.ids)
        for expect in part.expects:
            if isinstance(expect, LocationFree):
                if any(
                    each in enclosing_locations(expect.path) or expect.path in enclosing_locations(each)
                    for each in places
                ):
                    raise InvalidInput(f"{where}: its location overlaps that of another new table", field=where)
                places.append(expect.path)
        parts.append(part)
    return parts


async def prepare_commit(
    ports: Ports, caller: Caller, commit: TableCommit, *, together: SameTransaction = ALONE
) -> Part:
    """The part that makes the updates the next version of their table."""
    if is_creation(commit.requirements):
        return await _prepare_staged(ports, caller, commit, together)
    chain = await find_relation(ports, caller, commit.address, Privilege.MODIFY)
    before = await metadata_of(ports, chain[-1])
    return await next_version(ports, chain, before, _applied(before.doc, commit, ports.now_ms()))


async def prepare_together(
    ports: Ports, caller: Caller, commits: Sequence[TableCommit], requests: Sequence[str]
) -> tuple[Part, list[MoorageError | None]]:
    """The part that makes commits to one table its next version, each applied to what those before it made.

    Whoever's requirement fails has no part in it; why stands in its place of the list.
    """
    chain = await find_relation(ports, caller, commits[0].address, Privilege.MODIFY)
    before = await metadata_of(ports, chain[-1])
    doc, refusals = before.doc, list[MoorageError | None]()
    for commit in commits:
        try:
            doc = _applied(doc, commit, ports.now_ms())
        except MoorageError as error:
            refusals.append(error)
        else:
            refusals.append(None)
    joined = [request for request, refusal in zip(requests, refusals, strict=True) if refusal is None]
    # The entry bears the first request; whose else it is, or that it is not that one's at all, stands in the commit.
    told = () if joined == list(requests[:1]) else joined
    return await next_version(ports, chain, before, doc, told), refusals


def _applied(doc: Document, commit: TableCommit, now_ms: int) -> Document:
    check_requirements(doc, commit.requirements)
    return updated(doc, commit.updates, now_ms=now_ms)


async def next_version(
    ports: Ports, chain: Chain, before: Metadata, doc: Document, requests: Sequence[str] = ()
) -> Part:
    """The part that makes a changed document the next version of its table."""
    table, was = chain[-1], before.doc
    if doc is was:
        return unchanged(table, before)
    version = head_of(table).version + 1
    moved = None if doc["location"] == was["location"] else await moved_place(ports, chain, "tables", doc)
    columns_stay = has_same_shape(was, doc)
    is_same = moved is None and doc["properties"] is was["properties"] and columns_stay
    after, file = await new_metadata(following(doc, was, before.location), version, before)
    record = () if is_same else _record(ports, chain, after.doc, moved, columns_stay=columns_stay)
    commit = version_of(table.id, version, after, kind=_kind(was, doc), at_ms=after.doc["last-updated-ms"])
    if requests:
        commit = replace(commit, details={**commit.details, "requests": list(requests)})
    return Part(
        expects=(
            HeadIs(table.id, MAIN, version - 1),
            *((RevisionIs(table.id, table.revision),) if record else ()),
            *((LocationFree(moved, table.id, anew=True),) if moved is not None else ()),
        ),
        changes=(commit, *record),
        attachments=after.attachment(table.id, version),
        files=(file,),
        obsolete=fallen_files(was, after.doc, after.location, table.locations),
        done=Done(ids=(table.id,), versions=(version,)),
        before=table,
        result=after,
    )


def _record(
    ports: Ports, chain: Chain, after: Document, moved: str | None, *, columns_stay: bool
) -> tuple[Update, ...]:
    """The table's record, if it looks different now. Rows alone change none of it."""
    table = chain[-1]
    doc = commented(table.doc, after) if columns_stay else described(table.doc, after)
    if moved is not None and doc.table is not None:
        managed = moved == assigned_location(ports.roots, chain[:-1], "tables", table.id)
        former = {*doc.details.get(FORMER_LOCATIONS, ()), table.doc.location} - {moved}
        doc = replace(
            doc,
            location=moved,
            table=replace(doc.table, managed=managed),
            details={**doc.details, FORMER_LOCATIONS: sorted(former)},
        )
    return () if doc == table.doc else (Update(id=table.id, doc=doc, place=moved),)


def _kind(before: Document, after: Document) -> VersionKind:
    """What the commit did to the rows of the main line, for those who look after the table."""
    current = after.get("current-snapshot-id")
    if current is None or current == before.get("current-snapshot-id"):
        return VersionKind.METADATA
    added = gained(before["snapshots"], after["snapshots"])
    if added is None:
        known = {each["snapshot-id"] for each in before["snapshots"]}
        added = [each for each in after["snapshots"] if each["snapshot-id"] not in known]
    operations = {_KINDS[(each.get("summary") or {}).get("operation", "overwrite")] for each in added}
    return operations.pop() if len(operations) == 1 else VersionKind.CHANGE


async def _prepare_staged(ports: Ports, caller: Caller, commit: TableCommit, together: SameTransaction) -> Part:
    """The commit that makes a staged table a real one."""
    address = commit.address
    require_name(address.path[-1], "name")
    above, holder = await reach_parent(ports, caller, address)
    require_staying(above, together, "path")
    if holder is not None and holder.id not in together.released:
        if holder.kind is not address.kind:
            raise taken(address, holder)
        raise RequirementFailed("Requirement failed: table already exists", field="requirements")
    doc = created_by(commit.updates, uuid=fresh.securable_id(), now_ms=ports.now_ms())
    uuid = SecurableId(doc["table-uuid"].lower())
    stage = await find_stage(ports, caller, above, uuid)
    given = assigned_location(ports.roots, above, "tables", uuid)
    if parse_location(doc["location"], field="location") != given:
        external_location(ports.roots, doc["location"], field="location")
    elif stage is None:
        raise InvalidInput(f"nothing is staged at '{given}' any more; stage the table again", field="location")
    if stage is None:
        return await prepare_creation(ports, caller, address, above, fresh.securable_id(), doc)
    return created_from_staging(stage, await prepare_creation(ports, caller, address, above, stage.id, doc))
