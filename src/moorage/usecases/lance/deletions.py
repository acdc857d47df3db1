"""Letting versions of Lance tables go: their records at once, their files by upkeep."""

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
from moorage.usecases.lance.lookup import find_table, no_branch
from moorage.usecases.lance.refs import branches_of, tags_of
from moorage.usecases.lance.versions import TRIMMED, Line, line_of
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle


class Deleted(msgspec.Struct, frozen=True):
    """How many versions went, and the entry that tells of it."""

    count: int
    seq: int | None


async def delete_versions(ports: Ports, errand: Errand, address: Address, ref: str, ranges: Sequence[Span]) -> Deleted:
    """The records of these versions go; their numbers stay taken."""

    async def prepare(caller: Caller) -> Part:
        table = (await find_table(ports, caller, address, Privilege.MODIFY))[-1]
        line = require_begun(await line_of(ports, table, ref))
        spans = await require_unneeded(ports, line, spans_of(ranges, line.head))
        count = sum([await ports.ledger.count_versions(line.table.id, ref, *span) for span in spans])
        return dropping(line, spans if count else [], count)

    async with ports.local.queue(queue_of(address)):
        settled = await settle(ports, errand, prepare)
    return Deleted(settled.done.versions[0], settled.receipt.seq)


def require_begun(line: Line) -> Line:
    """A branch without a version does not exist."""
    if line.head is None and line.ref != MAIN:
        raise no_branch(line.table, line.ref)
    return line


def dropping(line: Line, spans: Sequence[Span], count: int) -> Part:
    """The part that lets spans of a line go."""
    table = line.table.id
    part = Part(
        expects=(HeadIs(table, line.ref, line.head),),
        changes=tuple(DropVersions(table=table, ref=line.ref, first=first, last=last) for first, last in spans),
        done=Done(ids=(table,), versions=(count,)),
    )
    is_noted = line.ref != MAIN or TRIMMED in line.table.doc.details
    return part if is_noted or line.head is None or not is_in(line.head, spans) else _noting(part, line.table)


def _noting(part: Part, table: Securable) -> Part:
    """The same, and the table says from now on that its head may have no record."""
    doc = replace(table.doc, details={**table.doc.details, TRIMMED: True})
    return replace(
        part,
        expects=(*part.expects, RevisionIs(table.id, table.revision)),
        changes=(*part.changes, Update(id=table.id, doc=doc)),
    )


async def require_unneeded(ports: Ports, line: Line, spans: list[Span]) -> list[Span]:
    """The spans, if no tag of the table points into them, and no branch begins there: pylance could not clean up any
    more. Tags and branches are files, which every client may write."""
    if not spans:
        return spans
    for name, tag in (await tags_of(ports, line.table)).items():
        if (tag.branch or MAIN) == line.ref and is_in(tag.version, spans):
            raise _needed(line, tag.version, f"is tagged '{name}'; delete the tag first")
    for name, branch in (await branches_of(ports, line.table)).items():
        if (branch.parent_branch or MAIN) == line.ref and is_in(branch.parent_version, spans):
            raise _needed(line, branch.parent_version, f"is where branch '{name}' begins; delete the branch first")
    return spans


def _needed(line: Line, version: int, why: str) -> RequirementFailed:
    return RequirementFailed(f"version {version} of '{line.table.name}' {why}", field="ranges")
