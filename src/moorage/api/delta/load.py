"""Loading a table, and what else can be done with one that is there."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import (
    EXAMPLE_LOADED,
    EXAMPLE_TABLE,
    DeltaCommit,
    DeltaLoadTableResponse,
    DeltaTableMetadata,
    DeltaUniformIceberg,
    DeltaUniformMetadata,
    location_of,
    new_table_at,
    table_at,
)
from moorage.api.errands import errand_of
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, NameTaken, TableNotFound
from moorage.core.revisions import Revision
from moorage.core.securables import Securable
from moorage.formats.delta.properties import LAST_COMMIT_TIMESTAMP, LAST_UPDATE_VERSION, ROW_ID_HIGH_WATER_MARK
from moorage.formats.delta.schema import WIRE, to_document
from moorage.formats.delta.uniform import to_millis
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.http.answers import JSON
from moorage.usecases.catalog import relations
from moorage.usecases.delta import updates as delta_updates
from moorage.usecases.delta.commits import etag_of
from moorage.usecases.delta.external import partitions_of, schema_of
from moorage.usecases.delta.history import Ratified
from moorage.usecases.delta.lookup import UNIFORM, head_of, is_managed, state_of
from moorage.usecases.delta.updates import Loaded
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

routes = delta.section(tags=("delta tables",))

MISSING = (CatalogNotFound, NamespaceNotFound, TableNotFound)

_encode = msgspec.json.Encoder().encode
_METADATA: Final = CacheKind[tuple[str, int, int | None], msgspec.Raw]("delta table metadata", limit=8192)
"""By table, revision and row id high-water mark, which decide it: a table is loaded many times between two appends."""


def show(ports: Ports, loaded: Loaded) -> Answer:
    """The answer that shows a table, the newest commit first."""
    table = loaded.table
    if not is_managed(table):
        return Answer.json({"metadata": _metadata_of(ports, table), "commits": []})
    commits = [_commit(version) for version in reversed(loaded.commits)]
    shown = {"metadata": _metadata_of(ports, table), "commits": commits, "latest-table-version": head_of(table).version}
    if (block := table.doc.details.get(UNIFORM)) is not None:
        # Whichever family it came through: Delta's clients of this one fail on anything but a number.
        time = to_millis(block["converted_delta_timestamp"])
        converted = DeltaUniformIceberg(**{**block, "converted_delta_timestamp": time})
        shown["uniform"] = DeltaUniformMetadata(iceberg=converted)
    return Answer(200, _encode(shown), (JSON,))


def _commit(version: Ratified) -> DeltaCommit:
    return DeltaCommit(
        version=version.version,
        timestamp=version.timestamp_ms,
        file_name=version.file,
        file_size=version.size,
        file_modification_timestamp=version.details["modified_ms"],
    )


def _metadata_of(ports: Ports, table: Securable) -> msgspec.Raw:
    key = (table.id, table.revision, table.head.row_id_mark if table.head else None)
    cached = ports.local.cache(_METADATA)
    found = cached.get(key)
    if found is None:
        found = msgspec.Raw(_encode(_described(ports, table, key[2])))
        cached.put(key, found)
    return found


def _described(ports: Ports, table: Securable, mark: int | None) -> DeltaTableMetadata:
    columns = table.doc.table.columns if table.doc.table is not None else ()
    managed = is_managed(table)
    properties = dict(table.doc.properties)
    if mark is not None:
        properties[ROW_ID_HIGH_WATER_MARK] = str(mark)
    return DeltaTableMetadata(
        etag=etag_of(table),
        table_type="MANAGED" if managed else "EXTERNAL",
        table_uuid=table.id,
        location=location_of(table.doc.location),
        created_time=table.created_at_ms,
        updated_time=table.updated_at_ms,
        columns=to_document(state_of(ports, table).schema if managed else schema_of(columns), WIRE),
        partition_columns=list(partitions_of(columns)),
        properties=properties,
        last_commit_version=_number(properties.get(LAST_UPDATE_VERSION)),
        last_commit_timestamp_ms=_number(properties.get(LAST_COMMIT_TIMESTAMP)),
    )


def _number(text: str | None) -> int | msgspec.UnsetType:
    """Of an external table its owner may have written anything here."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 19 else UNSET


@routes.get(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    operation="loadDeltaTable",
    summary="Load a table with its unpublished commits.",
    answer=DeltaLoadTableResponse,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_TABLE, answer=EXAMPLE_LOADED),
)
async def load_table(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """The table and all its commits that may not lie in the folder yet, as of one moment."""
    return show(ports, await delta_updates.load_table(ports, call.caller, table_at(call.params)))


@routes.head(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    operation="deltaTableExists",
    summary="Ask whether a table exists.",
    status=204,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_TABLE),
)
async def table_exists(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Whether there is a table or view of this name."""
    await relations.get_relation(ports, call.caller, table_at(call.params))
    return Answer.empty()


@routes.delete(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    operation="deleteDeltaTable",
    summary="Delete a table.",
    status=204,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_TABLE),
)
async def delete_table(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete a table. The files of a managed one go after a while, those of an external one stay."""
    address = table_at(call.params)
    await relations.drop_table(ports, errand_of(call, ports), address)
    return Answer.empty()


class DeltaRenameTableRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Another name in the same schema."""

    new_name: str


@routes.post(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}/rename",
    operation="renameDeltaTable",
    summary="Rename a table.",
    body=DeltaRenameTableRequest,
    status=204,
    errors=(InvalidInput, NameTaken, *MISSING),
    example=Example(path=EXAMPLE_TABLE, body={"new-name": "old_events"}),
)
async def rename_table(call: Call[DeltaRenameTableRequest, NoQuery], ports: Ports) -> Answer:
    """Give the table another name. Its id, its place and its history stay."""
    address = table_at(call.params)
    wanted = new_table_at(call.params, call.body.new_name, "new-name").path[-1]
    await relations.revise_table(ports, errand_of(call, ports), address, Revision(new_name=wanted))
    return Answer.empty()
