"""Adding, altering and dropping columns, and the metadata of schema and fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.datasets.fields import QUERY_COLUMNS, field_at, require_fields
from moorage.datasets.job_table import JobTable

if TYPE_CHECKING:
    from pyarrow import DataType


class Alteration(msgspec.Struct, frozen=True, kw_only=True):
    """The changes to one column. The type has the form of the Lance namespace specification."""

    path: str
    name: str | None
    nullable: bool | None
    data_type: dict[str, Any] | None


class FieldMetadataUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata keys to set on a field. None removes a key, and `replace` removes all keys that are not given."""

    path: str
    metadata: dict[str, str | None]
    replace: bool = False


class FieldMetadataResult(msgspec.Struct, frozen=True, kw_only=True):
    """The new version, and the metadata of the requested fields in it."""

    version: int
    fields: dict[str, dict[str, str]]


def add(desk: JobTable, expressions: Mapping[str, str], *, branch: str | None) -> int:
    """Add columns with values that are computed from the other columns. Returns the new version."""
    dataset = desk.open(branch)
    for name in expressions:
        if name in QUERY_COLUMNS:
            raise InvalidInput(
                f"new_columns: {name!r} is reserved for query results; choose another name", field="new_columns"
            )
        if dataset.lance_schema.field_case_insensitive(name) is not None:
            raise RequirementFailed(f"the table already has a column '{name}'", field="new_columns")
    dataset.add_columns(dict(expressions))
    return int(dataset.version)


def alter(desk: JobTable, alterations: Sequence[Alteration], *, branch: str | None) -> int:
    """Change names, types or nullability of columns. Returns the new version."""
    dataset = desk.open(branch)
    require_fields(dataset, [each.path for each in alterations], "alterations")
    alter_columns: Any = dataset.alter_columns
    alter_columns(*[_to_pylance(each) for each in alterations])
    return int(dataset.version)


def drop(desk: JobTable, paths: Sequence[str], *, branch: str | None) -> int:
    """Drop columns. Returns the new version; older versions keep the columns."""
    dataset = desk.open(branch)
    require_fields(dataset, paths, "columns")
    if set(dataset.schema.names) <= set(paths):
        raise InvalidInput("columns: all columns would be dropped; a table must keep at least one", field="columns")
    dataset.drop_columns(list(paths))
    return int(dataset.version)


def update_schema_metadata(desk: JobTable, metadata: Mapping[str, str], *, branch: str | None) -> dict[str, str]:
    """Set keys of the schema's metadata. Returns all of its keys."""
    noted: dict[str, str] = desk.open(branch).update_schema_metadata(dict(metadata))
    return noted


def schema_metadata(desk: JobTable, *, branch: str | None, version: int) -> dict[str, str]:
    """Return the schema's metadata at a version."""
    return _metadata_of(desk.open(branch, version).schema)


def update_field_metadata(
    desk: JobTable, notes: Sequence[FieldMetadataUpdate], *, branch: str | None
) -> FieldMetadataResult:
    """Set and remove metadata keys of fields."""
    dataset = desk.open(branch)
    current: dict[str, Any] = {note.path: _metadata_of(field_at(dataset, note.path, "updates")) for note in notes}
    for note in notes:
        kept = {} if note.replace else current[note.path]
        current[note.path] = {key: value for key, value in {**kept, **note.metadata}.items() if value is not None}
    # The complete metadata is sent, so that a single commit can merge keys for some fields and replace them for others.
    dataset.update_field_metadata(current, replace=True)
    return FieldMetadataResult(version=dataset.version, fields=current)


def field_metadata(desk: JobTable, paths: Sequence[str], *, branch: str | None, version: int) -> FieldMetadataResult:
    """Return the metadata of fields at a version."""
    dataset = desk.open(branch, version)
    return FieldMetadataResult(
        version=version, fields={path: _metadata_of(field_at(dataset, path, "updates")) for path in paths}
    )


def _metadata_of(field: Any) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}


def _to_pylance(alteration: Alteration) -> dict[str, Any]:
    given = {
        "path": alteration.path,
        "name": alteration.name,
        "nullable": alteration.nullable,
        "data_type": None if alteration.data_type is None else _parse_type(alteration.data_type),
    }
    return {name: value for name, value in given.items() if value is not None}


def _parse_type(text: dict[str, Any]) -> DataType:
    from lance import json_to_schema

    try:
        return json_to_schema({"fields": [{"name": "x", "nullable": True, "type": text}]}).field("x").type
    except ValueError:
        raise InvalidInput(f"{text} is not a Lance data type", field="alterations.data_type") from None
