"""Random sequences of valid updates give the same result in Moorage and in PyIceberg.

PyIceberg differs from the specification in two ways, which these tests avoid: it rewrites the parent of a snapshot if
the parent is removed, and it keeps entries of the snapshot log from before a removed one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import TableUpdate, update_table_metadata

from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.encoded import written
from moorage.formats.iceberg.schemas import current_schema
from tests.unit.formats.iceberg.tables import BY_CITY, NOW_MS, add, apply, set_ref, table

_updates: TypeAdapter[Any] = TypeAdapter(list[TableUpdate])
_TYPES = ("long", "string", "date", "decimal(9, 2)", "fixed[4]")
_TRANSFORMS = ("bucket[8]", "truncate[4]", "void")
_MOVES: list[Callable[[Document, int], list[Document]]] = []


def move(build: Callable[[Document, int], list[Document]]) -> None:
    """Register a function that builds the updates of one valid request; its number varies them."""
    _MOVES.append(build)


@move
def _properties(doc: Document, n: int) -> list[Document]:
    removal = [{"action": "remove-properties", "removals": sorted(doc["properties"])[:1]}] if doc["properties"] else []
    return [*removal, {"action": "set-properties", "updates": {f"p{n % 5}": str(n)}}]


@move
def _wider(doc: Document, n: int) -> list[Document]:
    id = doc["last-column-id"] + 1
    field = {"id": id, "name": f"c{id}", "required": False, "type": _TYPES[n % len(_TYPES)]}
    fields = [*current_schema(doc)["fields"], field]
    next_id = max(each["schema-id"] for each in doc["schemas"]) + 1
    return [
        {"action": "add-schema", "schema": {"type": "struct", "schema-id": next_id, "fields": fields}},
        {"action": "set-current-schema", "schema-id": -1 if n % 2 else next_id},
    ]


@move
def _spec(doc: Document, n: int) -> list[Document]:
    transform = _TRANSFORMS[n % len(_TRANSFORMS)]
    next_id, last = max(each["spec-id"] for each in doc["partition-specs"]) + 1, doc["last-partition-id"]
    field = {"source-id": 2, "field-id": last + 1, "name": f"part{last + 1}", "transform": transform}
    return [
        {"action": "add-spec", "spec": {"spec-id": next_id, "fields": [field]}},
        {"action": "set-default-spec", "spec-id": -1 if n % 2 else next_id},
    ]


@move
def _order(doc: Document, n: int) -> list[Document]:
    next_id = max(each["order-id"] for each in doc["sort-orders"]) + 1
    nulls = "nulls-first" if n % 2 else "nulls-last"
    field = {"transform": f"bucket[{next_id + 1}]", "source-id": 1, "direction": "desc", "null-order": nulls}
    return [
        {"action": "add-sort-order", "sort-order": {"order-id": next_id, "fields": [field]}},
        {"action": "set-default-sort-order", "sort-order-id": -1 if n % 2 else next_id},
    ]


@move
def _append(doc: Document, n: int) -> list[Document]:
    id = doc["last-sequence-number"] + 1
    rows = {"first-row-id": doc.get("next-row-id", 0), "added-rows": n} if doc["format-version"] == 3 else {}
    return [add(id, parent=doc.get("current-snapshot-id"), **rows), set_ref(id)]


@move
def _branch(doc: Document, n: int) -> list[Document]:
    if not doc["snapshots"]:
        return []
    id = doc["snapshots"][n % len(doc["snapshots"])]["snapshot-id"]
    kind, name = ("tag", f"t{n % 4}") if n % 2 else ("branch", f"b{n % 4}")
    ages = {"max-ref-age-ms": n + 1} if n % 3 else {}
    return [set_ref(id, name, kind, **ages)]


@move
def _rollback(doc: Document, n: int) -> list[Document]:
    if not doc["snapshots"]:
        return []
    return [set_ref(doc["snapshots"][n % len(doc["snapshots"])]["snapshot-id"])]


@move
def _unref(doc: Document, n: int) -> list[Document]:
    names = sorted(name for name in doc["refs"] if name != "main")
    return [{"action": "remove-snapshot-ref", "ref-name": names[n % len(names)]}] if names else []


@move
def _side_snapshot(doc: Document, n: int) -> list[Document]:
    id = doc["last-sequence-number"] + 1
    rows = {"first-row-id": doc.get("next-row-id", 0), "added-rows": n} if doc["format-version"] == 3 else {}
    removal = [{"action": "remove-snapshots", "snapshot-ids": [id]}] if n % 2 else []
    return [add(id, parent=doc.get("current-snapshot-id"), **rows), set_ref(id, "side"), *removal]


@move
def _statistics(doc: Document, n: int) -> list[Document]:
    if not doc["snapshots"]:
        return []
    id = doc["snapshots"][n % len(doc["snapshots"])]["snapshot-id"]
    file = {"snapshot-id": id, "statistics-path": f"file:///lake/t/{n}.puffin", "file-size-in-bytes": n}
    full = {**file, "file-footer-size-in-bytes": n, "blob-metadata": []}
    remove = [{"action": "remove-statistics", "snapshot-id": id}] if n % 3 == 0 else []
    return [
        {"action": "set-statistics", "statistics": full},
        {"action": "set-partition-statistics", "partition-statistics": file},
        *remove,
    ]


@move
def _location_and_uuid(doc: Document, n: int) -> list[Document]:
    return [
        {"action": "set-location", "location": f"file:///lake/t{n}"},
        {"action": "assign-uuid", "uuid": f"01939c1e-5a6f-7cc1-9d3e-{n:012d}"},
    ]


@move
def _remove_unused(doc: Document, n: int) -> list[Document]:
    used = {doc["current-schema-id"], *(each["schema-id"] for each in doc["snapshots"])}
    schemas = [each["schema-id"] for each in doc["schemas"] if each["schema-id"] not in used]
    specs = [each["spec-id"] for each in doc["partition-specs"] if each["spec-id"] != doc["default-spec-id"]]
    # The newest is kept, because both implementations derive the next id from it.
    return [
        {"action": "remove-schemas", "schema-ids": schemas[:-1]},
        {"action": "remove-partition-specs", "spec-ids": specs[:-1]},
    ]


def comparable(metadata: TableMetadata) -> Document:
    """The metadata without timestamps, because PyIceberg uses its own clock."""
    dumped = metadata.model_dump(mode="json", by_alias=True)
    dumped.pop("last-updated-ms")
    dumped["snapshot-log"] = [entry["snapshot-id"] for entry in dumped["snapshot-log"]]
    return dumped


@settings(max_examples=60, deadline=None)
@given(
    version=st.sampled_from([2, 3]),
    spec=st.sampled_from([None, BY_CITY]),
    moves=st.lists(st.tuples(st.integers(0, len(_MOVES) - 1), st.integers(0, 99)), max_size=12),
)
def test_random_updates_give_the_same_metadata_as_pyiceberg(
    version: int, spec: Document | None, moves: list[tuple[int, int]]
) -> None:
    ours = table(version, spec=spec)
    theirs = TableMetadataUtil.parse_obj(ours)
    text = written(ours)
    for step, (which, n) in enumerate(moves):
        updates = _MOVES[which](ours, n)
        if not updates:
            continue
        ours = apply(ours, *updates, now_ms=NOW_MS + step)
        theirs = update_table_metadata(theirs, tuple(_updates.validate_python(updates)))
        text = written(ours, text)
        assert msgspec.json.decode(text.text) == ours
    assert comparable(TableMetadataUtil.parse_obj(ours)) == comparable(theirs)
