"""Loading, renaming and deleting a table."""

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
    new_table_at,
    table_at,
    to_wire_location,
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
from moorage.usecases.delta.claims import converted_block
from moorage.usecases.delta.commits import etag_of
from moorage.usecases.delta.external import partitions_of, schema_of
from moorage.usecases.delta.history import RatifiedCommit
from moorage.usecases.delta.lookup import is_managed, require_head, state_of
from moorage.usecases.delta.updates import LoadedTable
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

routes = delta.section(tags=("delta tables",))

MISSING = (CatalogNotFound, NamespaceNotFound, TableNotFound)

_encode = msgspec.json.Encoder().encode
_METADATA: Final = CacheKind[tuple[str, int, int | None], msgspec.Raw]("delta table metadata", limit=8192)
"""By table, revision and row id high-water mark, which determine it. A table is loaded often between two appends."""


async def table_answer(ports: Ports, loaded: LoadedTable) -> Answer:
    """The response with a table and its commits, the newest first."""
    table = loaded.table
    if not is_managed(table):
        return Answer.json({"metadata": _encoded_metadata(ports, table), "commits": []})
    commits = [_commit(version) for version in reversed(loaded.commits)]
    body = {
        "metadata": _encoded_metadata(ports, table),
        "commits": commits,
        "latest-table-version": require_head(table).version,
    }
    if (block := await converted_block(ports, table)) is not None:
        # The other API families state a text here. Clients of this one fail on anything but a number.
        time = to_millis(block["converted_delta_timestamp"])
        converted = DeltaUniformIceberg(**{**block, "converted_delta_timestamp": time})
        body["uniform"] = DeltaUniformMetadata(iceberg=converted)
    return Answer(200, _encode(body), (JSON,))


def _commit(version: RatifiedCommit) -> DeltaCommit:
    return DeltaCommit(
        version=version.version,
        timestamp=version.timestamp_ms,
        file_name=version.file,
        file_size=version.size,
        file_modification_timestamp=version.details["modified_ms"],
    )


def _encoded_metadata(ports: Ports, table: Securable) -> msgspec.Raw:
    key = (table.id, table.revision, table.head.row_id_mark if table.head else None)
    cache = ports.local.cache(_METADATA)
    encoded = cache.get(key)
    if encoded is None:
        encoded = msgspec.Raw(_encode(_metadata(ports, table, key[2])))
        cache.put(key, encoded)
    return encoded


def _metadata(ports: Ports, table: Securable, high_water_mark: int | None) -> DeltaTableMetadata:
    columns = table.doc.table.columns if table.doc.table is not None else ()
    managed = is_managed(table)
    properties = dict(table.doc.properties)
    if high_water_mark is not None:
        properties[ROW_ID_HIGH_WATER_MARK] = str(high_water_mark)
    return DeltaTableMetadata(
        etag=etag_of(table),
        table_type="MANAGED" if managed else "EXTERNAL",
        table_uuid=table.id,
        location=to_wire_location(table.doc.location),
        created_time=table.created_at_ms,
        updated_time=table.updated_at_ms,
        columns=to_document(state_of(ports, table).schema if managed else schema_of(columns), WIRE),
        partition_columns=list(partitions_of(columns)),
        properties=properties,
        last_commit_version=_number(properties.get(LAST_UPDATE_VERSION)),
        last_commit_timestamp_ms=_number(properties.get(LAST_COMMIT_TIMESTAMP)),
    )


def _number(text: str | None) -> int | msgspec.UnsetType:
    """UNSET if the property is not a number: the owner of an external table can set any value."""
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
    """Return the table and all its commits that may not be in the folder yet, as of one point in time."""
    return await table_answer(ports, await delta_updates.load_table(ports, call.caller, table_at(call.params)))


@routes.head(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    operation="deltaTableExists",
    summary="Check whether a table exists.",
    status=204,
    errors=(InvalidInput, *MISSING),
    example=Example(path=EXAMPLE_TABLE),
)
async def table_exists(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return 204 if a table or view has this name."""
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
    """Delete a table. The files of a managed table are deleted later, those of an external table stay."""
    address = table_at(call.params)
    await relations.drop_table(ports, errand_of(call, ports), address)
    return Answer.empty()


class DeltaRenameTableRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The new name, in the same schema."""

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
    """Rename a table. Its id, location and history stay the same."""
    address = table_at(call.params)
    new_name = new_table_at(call.params, call.body.new_name, "new-name").path[-1]
    await relations.revise_table(ports, errand_of(call, ports), address, Revision(new_name=new_name))
    return Answer.empty()
