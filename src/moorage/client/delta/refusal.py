"""Which tables this writer and reader cannot handle, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

WRITABLE: Final = frozenset(
    (
        *("catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck", "v2Checkpoint", "deletionVectors"),
        *("domainMetadata", "clustering", "appendOnly", "timestampNtz", "typeWidening"),
        # These have no effect unless a property or a column uses them, which is checked below.
        *("columnMapping", "changeDataFeed", "checkConstraints", "invariants", "allowColumnDefaults"),
        *("generatedColumns", "identityColumns"),
    )
)
READABLE: Final = frozenset(
    (
        *("catalogManaged", "vacuumProtocolCheck", "v2Checkpoint", "deletionVectors", "columnMapping"),
        *("timestampNtz", "typeWidening"),
    )
)
_COLUMN_RULES: Final = {
    "delta.generationExpression": "is a generated column",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
    "CURRENT_DEFAULT": "has a default value",
}


_FEATURES_OF_TYPES: Final = {"timestamp_ntz": "timestampNtz", "variant": "variantType"}


class TableRefused(Exception):
    """The table needs more of its writer or reader than this one offers. The message says what."""


def require_writable(features: list[str], configuration: dict[str, str], fields: list[dict[str, Any]]) -> None:
    """Raise TableRefused if a plain Parquet file could break a rule of the table."""
    reason = next(_reasons(features, configuration, fields), None)
    if reason is not None:
        raise TableRefused(
            f"format('moorage') cannot write this table: {reason}. Append with Delta's own writer: "
            "moorage.client.spark.DeltaTable(spark, name).append(rows), in a stream by foreachBatch"
        )


def missing_features(schema: dict[str, Any], features: Collection[str]) -> list[str]:
    """The features that the types of columns need and a table lacks. Readers refuse a table without them."""
    needed = {_FEATURES_OF_TYPES[kind] for kind in _types(schema) if kind in _FEATURES_OF_TYPES}
    if unknown := needed - WRITABLE:
        raise TableRefused(f"format('moorage') cannot write a column that needs the feature {min(unknown)!r}")
    return sorted(needed - set(features))


def _types(document: Any) -> Iterator[str]:
    """The names of the types in a schema, or in a part of it."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, list):
        for each in document:
            yield from _types(each["type"])
    else:
        for key in ("type", "fields", "elementType", "keyType", "valueType"):
            if key in document:
                yield from _types(document[key])


def require_readable(features: list[str], configuration: dict[str, str]) -> None:
    unknown = sorted(set(features) - READABLE)
    if unknown:
        raise TableRefused(f"format('moorage') cannot read this table: it has the feature {unknown[0]!r}")
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        raise TableRefused("format('moorage') cannot read this table: its columns are mapped to other names")


def _reasons(features: list[str], configuration: dict[str, str], fields: list[dict[str, Any]]) -> Iterator[str]:
    for feature in sorted(set(features) - WRITABLE):
        yield f"it has the feature {feature!r}"
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        yield "its columns are mapped to other names"
    if configuration.get("delta.enableChangeDataFeed") == "true":
        yield "it records a change data feed"
    for name in configuration:
        if name.startswith("delta.constraints."):
            yield f"it has the constraint {name.removeprefix('delta.constraints.')!r}"
    for field in fields:
        for key, meaning in _COLUMN_RULES.items():
            if key in (field.get("metadata") or {}):
                yield f"the column {field['name']!r} {meaning}"
