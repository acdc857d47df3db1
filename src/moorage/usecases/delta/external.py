"""External Delta tables: the catalog does not ratify their commits, and records what their writers report."""

from __future__ import annotations

import asyncio

import msgspec
from msgspec.structs import replace

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done, Live, RevisionIs, Update
from moorage.core.errors import Damaged, InvalidInput, VersionNotFound
from moorage.core.privileges import Privilege
from moorage.core.securables import Column, Doc, Securable, TableDoc
from moorage.formats.delta import clustering, row_ids
from moorage.formats.delta.actions import Protocol
from moorage.formats.delta.columns import require_partition_columns, to_columns
from moorage.formats.delta.ddl import parse_type_text
from moorage.formats.delta.properties import (
    LAST_COMMIT_TIMESTAMP,
    LAST_UPDATE_VERSION,
    ROW_ID_HIGH_WATER_MARK,
    is_protocol_property,
    protocol_properties,
)
from moorage.formats.delta.schema import Field, Schema, parse_field
from moorage.snapshots.table_ref import TableRef
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.locations import require_choice, require_reachable
from moorage.usecases.catalog.relations import prepare_external
from moorage.usecases.delta.commits import require_etag
from moorage.usecases.delta.lookup import DELTA
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one

_PROPERTY_OF_DOMAIN = {clustering.DOMAIN: clustering.PROPERTY, row_ids.DOMAIN: ROW_ID_HIGH_WATER_MARK}


class Description(msgspec.Struct, frozen=True, kw_only=True):
    """A writer's description of its table. None means that the writer states nothing."""

    comment: str | None = None
    schema: Schema | None = None
    partition_columns: tuple[str, ...] | None = None
    protocol: Protocol | None = None
    set_properties: dict[str, str] = {}
    removed_properties: tuple[str, ...] = ()
    clustering_columns: clustering.ColumnPaths | None = None
    row_id_mark: int | None = None
    removed_domains: tuple[str, ...] = ()
    last_version: int | None = None
    last_timestamp_ms: int | None = None


class RegisteredTable(msgspec.Struct, frozen=True):
    """An external table, and whether this server can read the columns of its log if none were given."""

    table: Securable
    is_readable: bool


async def create_external_table(
    ports: Ports, errand: Errand, address: Address, doc: Doc, location: str
) -> RegisteredTable:
    """Register an external table of any format. If a Delta table has no columns, they are read from its log."""
    created = await settle_one(ports, errand, lambda caller: _prepare_external(ports, caller, address, doc, location))
    return RegisteredTable(created, await _is_readable(ports, created))


async def create_described_table(
    ports: Ports, errand: Errand, address: Address, description: Description, location: str
) -> Securable:
    """Register an external Delta table as its writer describes it."""
    doc = apply_description(Doc(table=TableDoc(format=DELTA, managed=False)), description)
    return await settle_one(ports, errand, lambda caller: prepare_external(ports, caller, address, doc, location))


async def _prepare_external(ports: Ports, caller: Caller, address: Address, doc: Doc, location: str) -> Part:
    part = await prepare_external(ports, caller, address, doc, location)
    create = part.changes[0]
    if not isinstance(create, Create) or doc.table is None or doc.table.format != DELTA or doc.table.columns:
        return part
    ref = TableRef(id=create.id, location=create.doc.location or "")
    await require_choice(ports, caller, ref.location)
    table = replace(doc.table, columns=await _columns_in_log(ports, ref))
    return replace(part, changes=(replace(create, doc=replace(create.doc, table=table)), *part.changes[1:]))


async def _is_readable(ports: Ports, table: Securable) -> bool:
    doc = table.doc
    if doc.table is None or doc.table.format != DELTA or doc.table.columns:
        return True
    try:
        await require_reachable(ports, doc.location or "")
    except InvalidInput:
        return False
    return True


async def _columns_in_log(ports: Ports, ref: TableRef) -> tuple[Column, ...]:
    """The columns of the newest version. Empty if the log does not exist or this server cannot reach it."""
    try:
        await require_reachable(ports, ref.location)
    except InvalidInput:
        return ()
    try:
        newest = await ports.snapshots.at(ref)
    except VersionNotFound:
        return ()
    except Damaged as error:  # the files belong to the caller, so the request is at fault
        raise InvalidInput(f"storage_location: {error.message}", field="storage_location") from None
    return await asyncio.to_thread(lambda: to_columns(newest.schema, newest.metadata.partition_columns))


async def prepare_description(
    ports: Ports, caller: Caller, chain: tuple[Securable, ...], description: Description, *, etag: str | None
) -> Part:
    """Return the part that applies a writer's description to its table."""
    table = chain[-1]
    require(ports.access, caller, Privilege.MODIFY, chain)
    require_etag(table, etag)
    return Part(
        expects=(Live(table.id), RevisionIs(table.id, table.revision)),
        changes=(Update(id=table.id, doc=apply_description(table.doc, description)),),
        done=Done(ids=(table.id,)),
        before=table,
    )


def apply_description(doc: Doc, description: Description) -> Doc:
    """Return the table's document with a writer's description applied."""
    columns = doc.table.columns if doc.table is not None else ()
    schema = schema_of(columns) if description.schema is None else description.schema
    partitions = partitions_of(columns) if description.partition_columns is None else description.partition_columns
    require_partition_columns(schema, partitions)
    if description.schema is not None or description.partition_columns is not None:
        columns = to_columns(schema, partitions)
    return replace(
        doc,
        comment=doc.comment if description.comment is None else description.comment,
        properties=_properties(doc.properties, description),
        table=TableDoc(format=DELTA, managed=False, columns=columns),
    )


def _properties(before: dict[str, str], description: Description) -> dict[str, str]:
    removed = {
        *description.removed_properties,
        *(_PROPERTY_OF_DOMAIN[domain] for domain in description.removed_domains),
    }
    after = {key: value for key, value in (before | description.set_properties).items() if key not in removed}
    if description.protocol is not None:
        after = {key: value for key, value in after.items() if not is_protocol_property(key)}
        after |= protocol_properties(description.protocol)
    if description.clustering_columns is not None:
        after[clustering.PROPERTY] = msgspec.json.encode(description.clustering_columns).decode()
    facts = ((ROW_ID_HIGH_WATER_MARK, description.row_id_mark), (LAST_UPDATE_VERSION, description.last_version))
    for key, number in (*facts, (LAST_COMMIT_TIMESTAMP, description.last_timestamp_ms)):
        if number is not None:
            after[key] = str(number)
    return after


def schema_of(columns: tuple[Column, ...]) -> Schema:
    """The Delta schema of a document's columns."""
    return Schema(tuple(_field(column) for column in columns))


def _field(column: Column) -> Field:
    if column.type_json is not None and column.type_json.lstrip().startswith("{"):
        return parse_field(column.type_json)
    metadata = {} if column.comment is None else {"comment": column.comment}
    return Field(column.name, parse_type_text(column.type_text), column.nullable, metadata)


def partitions_of(columns: tuple[Column, ...]) -> tuple[str, ...]:
    indexed = [(column.partition_index, column.name) for column in columns if column.partition_index is not None]
    return tuple(name for _, name in sorted(indexed))
