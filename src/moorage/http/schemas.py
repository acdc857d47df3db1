"""JSON Schemas of wire structs. Every field carries the stability labels of the API's evolution policy."""

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
    """The stability of a part of the contract, and the release in which it appeared."""

    stage: Stage
    since: str

    def merged_with(self, other: Labels) -> Labels:
        """The labels of a part that two operations share: the more stable stage and the older release."""
        return Labels(
            max(self.stage, other.stage, key=lambda stage: _STABILITY[stage]),
            min(self.since, other.since, key=release_number),
        )

    def add_to(self, part: Schema) -> None:
        """Add the labels. Labels that a field declares in `Meta(extra_json_schema=…)` take precedence."""
        part.setdefault("x-uc-stage", self.stage)
        part.setdefault("x-uc-since", self.since)


class Schemas:
    """The component schemas of one file, collected while its operations are generated."""

    def __init__(self) -> None:
        self._kinds: dict[str, Any] = {}
        self._schemas: dict[str, Schema] = {}
        self._labels: dict[str, Labels] = {}

    def of(self, kind: Any, labels: Labels) -> Schema:
        """The schema of `kind` for an operation with these labels."""
        (schema,), components = msgspec.json.schema_components([kind], ref_template=_REF + "{name}")
        self._take(components, labels)
        return _tidied(schema)

    def fields_of(self, kind: type[msgspec.Struct], labels: Labels) -> tuple[dict[str, Schema], list[str]]:
        """The fields of a query struct, and the names of the required ones. The struct itself is not a component."""
        _, components = msgspec.json.schema_components([kind], ref_template=_REF + "{name}")
        own = _tidied(components.pop(kind.__name__))
        self._take(components, labels)
        return own.get("properties", {}), own.get("required", [])

    def components(self) -> dict[str, Schema]:
        for name, schema in self._schemas.items():
            self._labels[name].add_to(schema)
            for field in schema.get("properties", {}).values():
                Labels(schema["x-uc-stage"], schema["x-uc-since"]).add_to(field)
        return dict(sorted(self._schemas.items()))

    def _take(self, components: dict[str, Schema], labels: Labels) -> None:
        for name, raw in components.items():
            schema = _tidied(raw)
            if self._schemas.setdefault(name, schema) != schema:
                raise TypeError(f"two different structs in one file are named {name}")
            known = self._labels.get(name)
            self._labels[name] = labels if known is None else known.merged_with(labels)


def _tidied(schema: Schema) -> Schema:
    """Clean up msgspec's schema: it keeps the indentation of docstrings and omits the type of string enums."""
    for part in _parts(schema):
        if isinstance(part.get("description"), str):  # a field may also be named "description"
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
