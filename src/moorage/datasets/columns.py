"""Columns: added, altered, dropped, and what is noted about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.datasets.desk import Desk
from moorage.datasets.fields import MADE_BY_QUERIES, field_at, require_fields

if TYPE_CHECKING:
    from pyarrow import DataType


class Alteration(msgspec.Struct, frozen=True, kw_only=True):
    """What changes about one column. The type is written as the specification writes types."""

    path: str
    name: str | None
    nullable: bool | None
    data_type: dict[str, Any] | None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Keys for the metadata of a field; None removes one, and `replace` all that are not given."""

    path: str
    metadata: dict[str, str | None]
    replace: bool = False


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """The version that was made, and what it now says of the fields that were meant."""

    version: int
    fields: dict[str, dict[str, str]]


def add(desk: Desk, expressions: Mapping[str, str], *, branch: str | None) -> int:
    """New columns, whose values are computed from the others of their row; the new version."""
    dataset = desk.open(branch)
    for name in expressions:
        if name in MADE_BY_QUERIES:
            raise InvalidInput(f"new_columns: {name!r} is the name of a column that queries make", field="new_columns")
        if dataset.lance_schema.field_case_insensitive(name) is not None:
            raise RequirementFailed(f"the table has a column '{name}' already", field="new_columns")
    dataset.add_columns(dict(expressions))
    return int(dataset.version)


def alter(desk: Desk, alterations: Sequence[Alteration], *, branch: str | None) -> int:
    """Other names, types or nullability; the new version."""
    dataset = desk.open(branch)
    require_fields(dataset, [each.path for each in alterations], "alterations")
    alter_columns: Any = dataset.alter_columns
    alter_columns(*[_spelled(each) for each in alterations])
    return int(dataset.version)


def drop(desk: Desk, paths: Sequence[str], *, branch: str | None) -> int:
    """Columns are gone from the table as it is from now on; the new version."""
    dataset = desk.open(branch)
    require_fields(dataset, paths, "columns")
    if set(dataset.schema.names) <= set(paths):
        raise InvalidInput("a table keeps at least one column", field="columns")
    dataset.drop_columns(list(paths))
    return int(dataset.version)


def note_on_schema(desk: Desk, metadata: Mapping[str, str], *, branch: str | None) -> dict[str, str]:
    """Set keys of the schema's metadata; all of it as it is now."""
    noted: dict[str, str] = desk.open(branch).update_schema_metadata(dict(metadata))
    return noted


def schema_notes(desk: Desk, *, branch: str | None, version: int) -> dict[str, str]:
    """All of the schema's metadata at a version."""
    return _notes(desk.open(branch, version).schema)


def note_on_fields(desk: Desk, notes: Sequence[Note], *, branch: str | None) -> Noted:
    """Set and remove keys of the metadata of fields."""
    dataset = desk.open(branch)
    current: dict[str, Any] = {note.path: _notes(field_at(dataset, note.path, "updates")) for note in notes}
    for note in notes:
        kept = {} if note.replace else current[note.path]
        current[note.path] = {key: value for key, value in {**kept, **note.metadata}.items() if value is not None}
    # All of them as they shall be, so that one commit does it, whether keys are merged or replaced.
    dataset.update_field_metadata(current, replace=True)
    return Noted(version=dataset.version, fields=current)


def field_notes(desk: Desk, paths: Sequence[str], *, branch: str | None, version: int) -> Noted:
    """What a version says of fields."""
    dataset = desk.open(branch, version)
    return Noted(version=version, fields={path: _notes(field_at(dataset, path, "updates")) for path in paths})


def _notes(field: Any) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}


def _spelled(alteration: Alteration) -> dict[str, Any]:
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
        raise InvalidInput(f"{text} is not a type", field="alterations.data_type") from None
