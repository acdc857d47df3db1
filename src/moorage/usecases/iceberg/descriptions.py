"""Revisions of an Iceberg table through other APIs: its comment and properties are part of its metadata."""

from __future__ import annotations

from msgspec.structs import replace

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Update
from moorage.core.errors import InvalidInput
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision
from moorage.core.securables import Kind
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import updated
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.iceberg.commits import prepare_version
from moorage.usecases.iceberg.metadata_files import load_metadata
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports

_COMMENT = "comment"


async def prepare_revision(ports: Ports, caller: Caller, chain: Chain, revision: Revision) -> Part | None:
    """The part that revises comment and properties by a commit, and name and owner in the table's record.

    None if the table has no metadata: then only its record is revised.
    """
    table = chain[-1]
    if table.head is None:
        return None
    require(ports.access, caller, Privilege.MODIFY, chain)
    if table.kind is not Kind.TABLE:
        raise InvalidInput(
            f"comment and properties of view '{table.name}' are part of its metadata; "
            "replace the view with an Iceberg client",
            field="properties" if revision.properties is not None else _COMMENT,
        )
    before = await load_metadata(ports, table)
    wanted = _properties_after(before.doc["properties"], revision)
    removed = [name for name in before.doc["properties"] if name not in wanted]
    updates: list[Document] = [
        {"action": "set-properties", "updates": wanted},
        {"action": "remove-properties", "removals": removed},
    ]
    commit = await prepare_version(ports, chain, before, updated(before.doc, updates, now_ms=ports.now_ms()))
    revised = next((change.doc for change in commit.changes if isinstance(change, Update)), table.doc)
    rest = await revise_found(
        ports,
        caller,
        (*chain[:-1], replace(table, doc=revised)),
        replace(revision, comment=None, properties=None),
    )
    if any(isinstance(change, Update) for change in rest.changes):  # it contains the update of the commit
        commit = replace(commit, changes=commit.changes[:1])
    return replace(
        commit,
        expects=(*commit.expects, *rest.expects),
        changes=(*commit.changes, *rest.changes),
        before=table,
    )


def _properties_after(properties: dict[str, str], revision: Revision) -> dict[str, str]:
    wanted = properties if revision.properties is None else revision.properties
    comment = properties.get(_COMMENT) if revision.comment is None else revision.comment
    return wanted if comment is None else {_COMMENT: comment, **wanted}
