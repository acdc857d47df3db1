"""Routes of columns, schema metadata and table statistics."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.lance.api import Delimited, lance, table_of
from moorage.api.lance.arrow import CHANGE_ERRORS, EXAMPLE_DATA, READ_ERRORS, Branch, branch_in
from moorage.api.lance.bodies import Count, Named, Properties
from moorage.core.errors import InvalidInput, RequirementFailed, Unsupported
from moorage.formats.lance.statistics import TableStats
from moorage.http import Answer, Call, Example
from moorage.usecases.lance import columns as lance_columns
from moorage.usecases.lance.columns import Alteration, FieldMetadataUpdate
from moorage.usecases.ports import Ports

routes = lance.section(tags=("schema",))

FieldPath = Annotated[str, Meta(min_length=1, max_length=1_000)]


class VersionMade(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new version."""

    transaction_id: str | None = None
    version: Count


class AddColumnsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A new column."""

    name: FieldPath
    expression: (
        Annotated[str, Meta(max_length=100_000, description="An SQL expression over the other columns.")] | None
    ) = None
    computed: Annotated[str | None, Meta(description="Not supported: a column that Lance keeps up to date.")] = None
    virtual_column: Annotated[dict[str, Any] | None, Meta(description="Not supported: a column that runs code.")] = None


class AlterTableAddColumnsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """New columns."""

    new_columns: Annotated[tuple[AddColumnsEntry, ...], Meta(min_length=1)]
    branch: Branch = None


@routes.post(
    "/v1/table/{id}/add_columns",
    operation="AlterTableAddColumns",
    summary="Add columns.",
    body=AlterTableAddColumnsRequest,
    answer=VersionMade,
    errors=(Unsupported, RequirementFailed, *CHANGE_ERRORS),
    example=Example(
        path=EXAMPLE_DATA,
        body={"new_columns": [{"name": "length", "expression": "character_length(text)"}]},
        answer={"transaction_id": "8", "version": 2},
    ),
)
async def alter_table_add_columns(call: Call[AlterTableAddColumnsRequest, Delimited], ports: Ports) -> Answer:
    """Add columns. Their values are computed once, from the other columns of each row."""
    body = call.body
    done = await lance_columns.add_columns(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        _expressions(body.new_columns),
        branch=branch_in(body.branch),
    )
    return Answer.json(VersionMade(transaction_id=done.transaction, version=done.result))


def _expressions(entries: tuple[AddColumnsEntry, ...]) -> dict[str, str]:
    expressions: dict[str, str] = {}
    for position, entry in enumerate(entries):
        field = f"new_columns[{position}]"
        if entry.computed is not None or entry.virtual_column is not None:
            raise Unsupported(
                f"{field}: computed and virtual columns are not supported; give an expression, which is evaluated once",
                field=field,
            )
        if not entry.expression:
            raise InvalidInput(
                f"{field}.expression: an SQL expression for the column is required", field=f"{field}.expression"
            )
        if entry.name in expressions:
            raise InvalidInput(f"{field}.name: {entry.name!r} is given more than once", field=f"{field}.name")
        expressions[entry.name] = entry.expression
    return expressions


class AlterColumnsEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one column."""

    path: FieldPath
    rename: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    nullable: bool | None = None
    data_type: Annotated[dict[str, Any] | None, Meta(description='A type such as {"type": "int64"}.')] = None
    virtual_column: Annotated[dict[str, Any] | None, Meta(description="Not supported.")] = None


class AlterTableAlterColumnsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of columns."""

    alterations: Annotated[tuple[AlterColumnsEntry, ...], Meta(min_length=1)]
    branch: Branch = None


@routes.post(
    "/v1/table/{id}/alter_columns",
    operation="AlterTableAlterColumns",
    summary="Alter columns.",
    body=AlterTableAlterColumnsRequest,
    answer=VersionMade,
    errors=(Unsupported, *CHANGE_ERRORS),
    example=Example(
        path=EXAMPLE_DATA,
        body={"alterations": [{"path": "text", "rename": "body"}]},
        answer={"transaction_id": "8", "version": 2},
    ),
)
async def alter_table_alter_columns(call: Call[AlterTableAlterColumnsRequest, Delimited], ports: Ports) -> Answer:
    """Change the name, type or nullability of columns."""
    body = call.body
    done = await lance_columns.alter_columns(
        ports,
        errand_of(call, ports),
        table_of(call, body.id),
        [_alteration(each, f"alterations[{n}]") for n, each in enumerate(body.alterations)],
        branch=branch_in(body.branch),
    )
    return Answer.json(VersionMade(transaction_id=done.transaction, version=done.result))


def _alteration(entry: AlterColumnsEntry, field: str) -> Alteration:
    if entry.virtual_column is not None:
        raise Unsupported(f"{field}: virtual columns are not supported", field=field)
    if entry.rename is None and entry.nullable is None and entry.data_type is None:
        raise InvalidInput(f"{field}: nothing changes; give rename, nullable or data_type", field=field)
    return Alteration(path=entry.path, name=entry.rename, nullable=entry.nullable, data_type=entry.data_type)


class AlterTableDropColumnsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The columns to drop."""

    columns: Annotated[tuple[FieldPath, ...], Meta(min_length=1)]
    branch: Branch = None


@routes.post(
    "/v1/table/{id}/drop_columns",
    operation="AlterTableDropColumns",
    summary="Drop columns.",
    body=AlterTableDropColumnsRequest,
    answer=VersionMade,
    errors=CHANGE_ERRORS,
    example=Example(path=EXAMPLE_DATA, body={"columns": ["vector"]}, answer={"transaction_id": "8", "version": 2}),
)
async def alter_table_drop_columns(call: Call[AlterTableDropColumnsRequest, Delimited], ports: Ports) -> Answer:
    """Drop columns from the table. Earlier versions keep them."""
    body = call.body
    done = await lance_columns.drop_columns(
        ports, errand_of(call, ports), table_of(call, body.id), body.columns, branch=branch_in(body.branch)
    )
    return Answer.json(VersionMade(transaction_id=done.transaction, version=done.result))


class SchemaMetadataQuery(Delimited, frozen=True, kw_only=True):
    """The branch to change."""

    branch: Branch = None


@routes.post(
    "/v1/table/{id}/schema_metadata/update",
    operation="UpdateTableSchemaMetadata",
    summary="Update the metadata of the schema.",
    query=SchemaMetadataQuery,
    body=Properties,
    answer=Properties,
    errors=CHANGE_ERRORS,
    example=Example(path=EXAMPLE_DATA, body={"model": "small"}, answer={"model": "small"}),
)
async def update_table_schema_metadata(call: Call[Properties, SchemaMetadataQuery], ports: Ports) -> Answer:
    """Set keys of the schema's metadata. The response is all of the metadata."""
    done = await lance_columns.update_schema_metadata(
        ports, errand_of(call, ports), table_of(call), call.body, branch=branch_in(call.query.branch)
    )
    return Answer.json(done.result)


class UpdateFieldMetadataEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Keys to set in the metadata of one field. A null value removes the key."""

    path: FieldPath
    metadata: dict[str, str | None]
    replace: Annotated[bool | None, Meta(description="Remove all keys that are not given.")] = None


class UpdateFieldMetadataRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The changes of fields' metadata."""

    updates: Annotated[tuple[UpdateFieldMetadataEntry, ...], Meta(min_length=1)]
    branch: Branch = None


class UpdateFieldMetadataResponse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The new version, and the metadata of the fields in it."""

    version: Count
    fields: dict[str, Properties]


@routes.post(
    "/v1/table/{id}/update_field_metadata",
    operation="UpdateFieldMetadata",
    summary="Update the metadata of fields.",
    body=UpdateFieldMetadataRequest,
    answer=UpdateFieldMetadataResponse,
    errors=CHANGE_ERRORS,
    example=Example(
        path=EXAMPLE_DATA,
        body={"updates": [{"path": "text", "metadata": {"language": "en"}}]},
        answer={"version": 2, "fields": {"text": {"language": "en"}}},
    ),
)
async def update_field_metadata(call: Call[UpdateFieldMetadataRequest, Delimited], ports: Ports) -> Answer:
    """Set and remove keys of the metadata of several fields, in one version."""
    body = call.body
    updates = [
        FieldMetadataUpdate(path=each.path, metadata=each.metadata, replace=bool(each.replace)) for each in body.updates
    ]
    done = await lance_columns.update_field_metadata(
        ports, errand_of(call, ports), table_of(call, body.id), updates, branch=branch_in(body.branch)
    )
    return Answer.json(UpdateFieldMetadataResponse(version=done.result.version, fields=done.result.fields))


class GetTableStatsRequest(Named, frozen=True, kw_only=True, omit_defaults=True):
    """The branch to read."""

    branch: Branch = None


class GetTableStatsResponse(TableStats, frozen=True, kw_only=True):
    """The size of a table."""


@routes.post(
    "/v1/table/{id}/stats",
    operation="GetTableStats",
    summary="Get statistics of a table.",
    body=GetTableStatsRequest,
    body_required=False,
    answer=GetTableStatsResponse,
    mutation=False,
    errors=READ_ERRORS,
    example=Example(
        path=EXAMPLE_DATA,
        body={},
        answer={
            "total_bytes": 368,
            "num_rows": 2,
            "num_indices": 1,
            "fragment_stats": {
                "num_fragments": 1,
                "num_small_fragments": 1,
                "lengths": {"min": 2, "max": 2, "mean": 2, "p25": 2, "p50": 2, "p75": 2, "p99": 2},
            },
        },
    ),
)
async def get_table_stats(call: Call[GetTableStatsRequest, Delimited], ports: Ports) -> Answer:
    """Get the numbers of rows, bytes, indexes and fragments of a table."""
    body = call.body
    return Answer.json(
        await lance_columns.table_stats(
            ports, errand_of(call, ports), table_of(call, body.id), branch=branch_in(body.branch)
        )
    )
