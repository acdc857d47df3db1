"""JSON Schemas of wire structs, with the labels of the API's evolution policy on every field."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import msgspec

from moorage.http.declarations import Stage, release_number

Schema = dict[str, Any]

_REF = "#/components/schemas/"
_STABILITY: dict[Stage, int] = {"private_preview": 0, "public_preview": 1, "ga": 2}


class Labels(msgspec.Struct, frozen=True):
    """How far a part of the contract can be relied upon, and since which release it exists."""

    stage: Stage
    since: str

    def or_firmer(self, other: Labels) -> Labels:
        """A part of two operations is as stable as the more stable one, and as old as the older one."""
        return Labels(
            max(self.stage, other.stage, key=lambda stage: _STABILITY[stage]),
            min(self.since, other.since, key=release_number),
        )

    def put_on(self, part: Schema) -> None:
        """What a field says of itself (`Meta(extra_json_schema=…)`) wins."""
        part.setdefault("x-uc-stage", self.stage)
        part.setdefault("x-uc-since", self.since)


class Schemas:
    """The component schemas of one file, collected while its operations are written."""

    def __init__(self) -> None:
        self._kinds: dict[str, Any] = {}
        self._schemas: dict[str, Schema] = {}
        self._labels: dict[str, Labels] = {}

    def of(self, kind: Any, labels: Labels) -> Schema:
        """The schema of `kind` for use in an operation that carries these labels."""
        (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF + "{name}")
        self._take(components, labels)
        return _tidied(schema)

    def fields_of(self, kind: type[msgspec.Struct], labels: Labels) -> tuple[dict[str, Schema], list[str]]:
        """The fields of a query struct and which of them are required; it is no component itself."""
        _, components = msgspec.json.schema_components([kind], ref_template=_REF + "{name}")
        own = _tidied(components.pop(kind.__name__))
        self._take(components, labels)
        return own.get("properties", {}), own.get("required", [])

    def components(self) -> dict[str, Schema]:
        for name, schema in self._schemas.items():
            self._labels[name].put_on(schema)
            for field in schema.get("properties", {}).values():
                Labels(schema["x-uc-stage"], schema["x-uc-since"]).put_on(field)
        return dict(sorted(self._schemas.items()))

    def _take(self, components: dict[str, Schema], labels: Labels) -> None:
        for name, raw in components.items():
            schema = _tidied(raw)
            if self._schemas.setdefault(name, schema) != schema:
                raise TypeError(f"two different structs are called {name} in one file")
            known = self._labels.get(name)
            self._labels[name] = labels if known is None else known.or_firmer(labels)


def _tidied(schema: Schema) -> Schema:
    """msgspec keeps the indentation of docstrings, and leaves out the type of text enums."""
    for part in _parts(schema):
        if isinstance(part.get("description"), str):  # a field may be called so, too
            part["description"] = inspect.cleandoc(part["description"])
        if "enum" in part and "type" not in part and all(isinstance(value, str) for value in part["enum"]):
            part["type"] = "string"
    return schema


def _parts(schema: Any) -> Iterator[Schema]:
    if isinstance(schema, dict):
        yield schema
        for name, value in list(schema.items()):
            if name not in ("default", "enum", "example", "examples"):
                yield from _parts(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _parts(item)
