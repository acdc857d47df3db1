"""The fields of a schema by name and by id, as filters and projections name them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.values import Primitive, parse_primitive

NESTED = Primitive("nested")


class Field(msgspec.Struct, frozen=True):
    """A column or a nested field, with its full name."""

    id: int
    name: str
    kind: Primitive
    """NESTED for structs, lists and maps."""
    is_required: bool
    """Whether it is present in every row. All enclosing structs are then required too."""
    is_repeated: bool = False
    """Whether a row can have several values, because the field is inside a list or a map."""


class Fields:
    """All fields of a schema."""

    def __init__(self, schema: Document, *, case_sensitive: bool = True) -> None:
        found = list(every_field(schema))
        self._case_sensitive = case_sensitive
        self._by_name = {self._key(field.name): field for field in found}
        self._by_id = {field.id: field for field in found}

    def find(self, name: str) -> Field | None:
        return self._by_name.get(self._key(name))

    def named(self, name: str, source: str) -> Field:
        """The field with this name. Raises InvalidInput with `source`, the part of the request that names it."""
        found = self.find(name)
        if found is None:
            raise InvalidInput(f"{source}: there is no column '{name}'", field=source)
        return found

    def by_id(self, id: int, source: str) -> Field:
        found = self._by_id.get(id)
        if found is None:
            raise InvalidInput(f"{source}: there is no column with the id {id}", field=source)
        return found

    def kind_of(self, id: int) -> Primitive | None:
        """The type of a field; None if this schema does not have it."""
        found = self._by_id.get(id)
        return None if found is None else found.kind

    def _key(self, name: str) -> str:
        return name if self._case_sensitive else name.lower()


def every_field(schema: Document) -> Iterator[Field]:
    """All fields of a schema, at every level."""
    return _walk(schema["fields"], "", required=True, repeated=False)


def _walk(fields: list[Document], prefix: str, *, required: bool, repeated: bool) -> Iterator[Field]:
    for field in fields:
        name, is_required = prefix + field["name"], required and bool(field.get("required"))
        yield from _walk_type(field["id"], name, field["type"], required=is_required, repeated=repeated)


def _walk_type(id: int, name: str, kind: Any, *, required: bool, repeated: bool) -> Iterator[Field]:
    if isinstance(kind, str):
        yield Field(id, name, parse_primitive(kind), required, repeated)
        return
    yield Field(id, name, NESTED, required, repeated)
    if kind.get("type") == "struct":
        yield from _walk(kind["fields"], f"{name}.", required=required, repeated=repeated)
    for part in ("element", "key", "value"):
        if f"{part}-id" in kind:
            yield from _walk_type(kind[f"{part}-id"], f"{name}.{part}", kind[part], required=False, repeated=True)
