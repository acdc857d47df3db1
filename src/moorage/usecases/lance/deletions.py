"""Deleting versions of Lance tables: their records immediately, their files by upkeep."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.entries import Done, DropVersions, HeadIs, RevisionIs, Update
from moorage.core.errors import RequirementFailed
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Securable
from moorage.formats.lance.ranges import Span, is_in, spans_of
from moorage.usecases.catalog.addresses import Address, queue_of
from moorage.usecases.lance.lookup import branch_not_found_error, find_table
from moorage.usecases.lance.refs import branches_of, tags_of
from moorage.usecases.lance.versions import TRIMMED, Line, read_line
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle


class DeletedVersions(msgspec.Struct, frozen=True):
    """The number of deleted versions, and the number of the entry."""

    count: int
    seq: int | None


async def delete_versions(
    ports: Ports, errand: Errand, address: Address, ref: str, ranges: Sequence[Span]
) -> DeletedVersions:
    """Delete the records of these versions. Their numbers are never reused."""

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MODIFY))[-1]
        line = require_branch_exists(await read_line(ports, table, ref))
        spans = await require_unreferenced(ports, line, spans_of(ranges, line.head))
        count = sum([await ports.ledger.count_versions(line.table.id, ref, *span) for span in spans])
        return drop_versions_part(line, spans if count else [], count)

    async with ports.local.queue(queue_of(address)):
        settled = await settle(ports, errand, prepare)
    return DeletedVersions(settled.done.versions[0], settled.receipt.seq)


def require_branch_exists(line: Line) -> Line:
    """A branch without a version does not exist."""
    if line.head is None and line.ref != MAIN:
        raise branch_not_found_error(line.table, line.ref)
    return line


def drop_versions_part(line: Line, spans: Sequence[Span], count: int) -> Part:
    """The part that deletes spans of versions of a line."""
    table = line.table.id
    part = Part(
        expects=(HeadIs(table, line.ref, line.head),),
        changes=tuple(DropVersions(table=table, ref=line.ref, first=first, last=last) for first, last in spans),
        done=Done(ids=(table,), versions=(count,)),
    )
    is_marked = line.ref != MAIN or TRIMMED in line.table.doc.details
    return part if is_marked or line.head is None or not is_in(line.head, spans) else _mark_trimmed(part, line.table)


def _mark_trimmed(part: Part, table: Securable) -> Part:
    """Also record in the table's details that its head may have no record."""
    doc = replace(table.doc, details={**table.doc.details, TRIMMED: True})
    return replace(
        part,
        expects=(*part.expects, RevisionIs(table.id, table.revision)),
        changes=(*part.changes, Update(id=table.id, doc=doc)),
    )


async def require_unreferenced(ports: Ports, line: Line, spans: list[Span]) -> list[Span]:
    """The spans, if no tag names one of their versions and no branch begins at one.

    Otherwise pylance could no longer clean up the table. Tags and branches are files that every client can write.
    """
    if not spans:
        return spans
    for name, tag in (await tags_of(ports, line.table)).items():
        if (tag.branch or MAIN) == line.ref and is_in(tag.version, spans):
            raise _referenced_error(line, tag.version, f"is tagged '{name}'; delete the tag first")
    for name, branch in (await branches_of(ports, line.table)).items():
        if (branch.parent_branch or MAIN) == line.ref and is_in(branch.parent_version, spans):
            raise _referenced_error(
                line, branch.parent_version, f"is where branch '{name}' begins; delete the branch first"
            )
    return spans


def _referenced_error(line: Line, version: int, why: str) -> RequirementFailed:
    return RequirementFailed(f"version {version} of '{line.table.name}' {why}", field="ranges")
