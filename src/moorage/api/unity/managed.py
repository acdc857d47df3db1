"""Managed tables: the catalog assigns the location and ratifies the commits."""

from __future__ import annotations

from typing import Final

import msgspec

from moorage.api.errands import errand_of
from moorage.api.unity.clients import client_of
from moorage.api.unity.names import new_address
from moorage.api.unity.objects import answer_with_info
from moorage.api.unity.table_bodies import CreateTable
from moorage.api.unity.table_info import table_info
from moorage.core.errors import InvalidInput
from moorage.core.securables import Kind
from moorage.formats.delta.columns import ColumnInfo
from moorage.formats.delta.contract import TABLE_ID
from moorage.formats.delta.stated_metadata import StatedMetadata
from moorage.http import Answer, Call, NoQuery
from moorage.usecases.catalog.relations import RETENTION_DAYS
from moorage.usecases.delta.families import require_older_families_enabled
from moorage.usecases.delta.tables import NewTable, create_managed_table
from moorage.usecases.ports import Ports

_DELTA: Final = "DELTA"


async def create_managed(call: Call[CreateTable, NoQuery], ports: Ports) -> Answer:
    """Create a table from the first commit at its staging location."""
    require_older_families_enabled(ports.managed_tables)
    body = call.body
    if body.data_source_format not in (None, _DELTA):
        raise InvalidInput(
            f"data_source_format {body.data_source_format} is not supported for managed tables; use DELTA",
            field="data_source_format",
        )
    if not body.storage_location:
        raise InvalidInput(
            "storage_location is required for a managed table; send its staging location", field="storage_location"
        )
    created = await create_managed_table(ports, errand_of(call, ports), _new_table(body, body.storage_location))
    return await answer_with_info(ports, created, table_info, client_of(call.header("user-agent")))


def _new_table(body: CreateTable, location: str) -> NewTable:
    properties = body.properties or {}
    columns = None if not body.columns else msgspec.convert(msgspec.to_builtins(body.columns), tuple[ColumnInfo, ...])
    return NewTable(
        address=new_address(Kind.TABLE, body.catalog_name, body.schema_name, body.name),
        location=location,
        table_id=properties.get(TABLE_ID),
        stated=StatedMetadata(columns=columns, properties=properties),
        comment=body.comment,
        first_properties=properties,
        details={} if body.retention_days is None else {RETENTION_DAYS: body.retention_days},
    )
