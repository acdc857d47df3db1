"""Commits to Iceberg tables: requirements are checked against exactly the state that the commit replaces.

This server serialises commits to one table and combines those that wait (`groups`). If another server commits first,
the requirements are checked again and the updates applied again on its version. So the response is a conflict only if
a requirement failed.
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
from moorage.usecases.catalog.objects import require_not_dropped
from moorage.usecases.catalog.staging import create_from_staging_table, find_staging_table
from moorage.usecases.iceberg.lookup import find_relation, name_taken, require_head
from moorage.usecases.iceberg.metadata_files import Metadata, expired_metadata_files, load_metadata, new_metadata
from moorage.usecases.iceberg.relations import changed_location, unchanged_part, version_commit
from moorage.usecases.iceberg.tables import doc_from_metadata, doc_with_properties, prepare_creation
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle
from moorage.usecases.settling.transact import ALONE, SameTransaction

MAX_TABLES = 100
"""Tables that one transaction may change."""

_KINDS = {
    "append": VersionKind.APPEND,
    "replace": VersionKind.REWRITE,
    "overwrite": VersionKind.CHANGE,
    "delete": VersionKind.CHANGE,
}


class TableCommit(msgspec.Struct, frozen=True, kw_only=True):
    """Updates of a table, and the requirements that must hold for them."""

    address: Address
    requirements: Sequence[Document]
    updates: Sequence[Document]


async def commit_transaction(ports: Ports, errand: Errand, commits: Sequence[TableCommit]) -> None:
    """Carry out all commits in one entry, or none of them."""
    if not 0 < len(commits) <= MAX_TABLES:
        raise InvalidInput(
            f"a transaction must change 1 to {MAX_TABLES} tables, not {len(commits)}", field="table-changes"
        )
    for commit in commits:
        require_known(commit.requirements)
    queues = {queue_of(commit.address) for commit in commits}
    if len(queues) < len(commits):
        raise InvalidInput(
            "a table occurs twice in the transaction; combine its updates into one change", field="table-changes"
        )
    async with ports.local.queues(queues):
        await settle(ports, errand, lambda caller: _prepare_all(ports, caller, commits))


async def _prepare_all(ports: Ports, caller: Caller, commits: Sequence[TableCommit]) -> list[Part]:
    parts: list[Part] = []
    ids: set[str] = set()
    locations: list[str] = []
    for index, commit in enumerate(commits):
        where = f"table-changes[{index}]"
        try:
            part = await prepare_commit(ports, caller, commit)
        except MoorageError as error:
            error.field = f"{where}.{error.field}" if error.field else where
            raise
        if not ids.isdisjoint(part.done.ids):
            raise InvalidInput(f"{where}: it has the same staging table as another change", field=where)
        ids.update(part.done.ids)
        for expect in part.expects:
            if isinstance(expect, LocationFree):
                if any(
                    each in enclosing_locations(expect.path) or expect.path in enclosing_locations(each)
                    for each in locations
                ):
                    raise InvalidInput(f"{where}: its location overlaps the location of another new table", field=where)
                locations.append(expect.path)
        parts.append(part)
    return parts


async def prepare_commit(
    ports: Ports, caller: Caller, commit: TableCommit, *, together: SameTransaction = ALONE
) -> Part:
    """The part that applies a commit as the next version of its table, or creates the table."""
    if is_creation(commit.requirements):
        return await _prepare_staged_creation(ports, caller, commit, together)
    chain = await find_relation(ports, caller, commit.address, Privilege.MODIFY)
    before = await load_metadata(ports, chain[-1])
    return await prepare_version(ports, chain, before, _apply(before.doc, commit, ports.now_ms()))


async def prepare_group(
    ports: Ports, caller: Caller, commits: Sequence[TableCommit], requests: Sequence[str]
) -> tuple[Part, list[MoorageError | None]]:
    """The part that makes several commits to one table its next version, each applied to the result of the previous.

    A commit whose requirement fails is left out. The list has the error of each commit, None if it was applied.
    """
    chain = await find_relation(ports, caller, commits[0].address, Privilege.MODIFY)
    before = await load_metadata(ports, chain[-1])
    doc, refusals = before.doc, list[MoorageError | None]()
    for commit in commits:
        try:
            doc = _apply(doc, commit, ports.now_ms())
        except MoorageError as error:
            refusals.append(error)
        else:
            refusals.append(None)
    joined = [request for request, refusal in zip(requests, refusals, strict=True) if refusal is None]
    # The entry has the id of the first request. If other requests joined, or the first did not, the commit lists them.
    listed = () if joined == list(requests[:1]) else joined
    return await prepare_version(ports, chain, before, doc, listed), refusals


def _apply(doc: Document, commit: TableCommit, now_ms: int) -> Document:
    check_requirements(doc, commit.requirements)
    return updated(doc, commit.updates, now_ms=now_ms)


async def prepare_version(
    ports: Ports, chain: Chain, before: Metadata, doc: Document, requests: Sequence[str] = ()
) -> Part:
    """The part that makes a changed document the next version of its table."""
    table, was = chain[-1], before.doc
    if doc is was:
        return unchanged_part(table, before)
    version = require_head(table).version + 1
    moved = None if doc["location"] == was["location"] else await changed_location(ports, chain, "tables", doc)
    columns_stay = has_same_shape(was, doc)
    is_same = moved is None and doc["properties"] is was["properties"] and columns_stay
    after, file = await new_metadata(following(doc, was, before.location), version, before)
    record = () if is_same else _record_update(ports, chain, after.doc, moved, columns_stay=columns_stay)
    commit = version_commit(table.id, version, after, kind=_version_kind(was, doc), at_ms=after.doc["last-updated-ms"])
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
        obsolete=expired_metadata_files(was, after.doc, after.location, table.locations),
        done=Done(ids=(table.id,), versions=(version,)),
        before=table,
        result=after,
    )


def _record_update(
    ports: Ports, chain: Chain, after: Document, moved: str | None, *, columns_stay: bool
) -> tuple[Update, ...]:
    """The update of the table's record; empty if only rows changed."""
    table = chain[-1]
    doc = doc_with_properties(table.doc, after) if columns_stay else doc_from_metadata(table.doc, after)
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


def _version_kind(before: Document, after: Document) -> VersionKind:
    """How the commit changed the rows of the main line; maintenance decides by it."""
    current = after.get("current-snapshot-id")
    if current is None or current == before.get("current-snapshot-id"):
        return VersionKind.METADATA
    added = gained(before["snapshots"], after["snapshots"])
    if added is None:
        known = {each["snapshot-id"] for each in before["snapshots"]}
        added = [each for each in after["snapshots"] if each["snapshot-id"] not in known]
    operations = {_KINDS[(each.get("summary") or {}).get("operation", "overwrite")] for each in added}
    return operations.pop() if len(operations) == 1 else VersionKind.CHANGE


async def _prepare_staged_creation(
    ports: Ports, caller: Caller, commit: TableCommit, together: SameTransaction
) -> Part:
    """The part that creates a table from its first commit."""
    address = commit.address
    require_name(address.path[-1], "name")
    above, holder = await reach_parent(ports, caller, address)
    require_not_dropped(above, together, "path")
    if holder is not None and holder.id not in together.released:
        if holder.kind is not address.kind:
            raise name_taken(address, holder)
        raise RequirementFailed("Requirement failed: table already exists", field="requirements")
    doc = created_by(commit.updates, uuid=fresh.securable_id(), now_ms=ports.now_ms())
    uuid = SecurableId(doc["table-uuid"].lower())
    staged = await find_staging_table(ports, caller, above, uuid)
    assigned = assigned_location(ports.roots, above, "tables", uuid)
    if parse_location(doc["location"], field="location") != assigned:
        external_location(ports.roots, doc["location"], field="location")
    elif staged is None:
        raise InvalidInput(
            f"the staging table at '{assigned}' has expired or does not exist; stage the table again", field="location"
        )
    if staged is None:
        return await prepare_creation(ports, caller, address, above, fresh.securable_id(), doc)
    return create_from_staging_table(staged, await prepare_creation(ports, caller, address, above, staged.id, doc))
