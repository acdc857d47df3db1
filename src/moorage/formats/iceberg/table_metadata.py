"""The metadata of a table: created, changed by a request, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_, itemgetter

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.formats.iceberg.documents import (
    Document,
    document_of,
    documents_of,
    id_of,
    number_of,
    number_or_none,
    properties_of,
    text_of,
    with_id,
    without,
    without_nulls,
)
from moorage.formats.iceberg.edits import Edit
from moorage.formats.iceberg.partitions import (
    FIRST_FIELD_ID,
    last_field_id,
    numbered_spec,
    require_sources,
)
from moorage.formats.iceberg.schemas import (
    current_schema,
    highest_id,
    require_schema,
    with_new_ids,
)
from moorage.formats.iceberg.snapshots import (
    MAIN,
    pruned_snapshot_log,
    require_history,
    require_partition_statistics,
    require_statistics,
)
from moorage.formats.iceberg.sort_orders import UNSORTED, parse_order, require_fitting_order
from moorage.formats.iceberg.table_uuids import require_uuid
from moorage.formats.iceberg.updates import (
    LAST_ADDED,
    NEWEST_FORMAT,
    add_sort_order,
    add_spec,
    apply_each,
    require_key,
    set_current_schema,
    set_default_sort_order,
    set_default_spec,
    with_schema,
)

FORMAT_VERSION = "format-version"
DEFAULT_FORMAT = 2
_ID_KEYS = {"schemas": "schema-id", "partition-specs": "spec-id", "sort-orders": "order-id"}
_shape = itemgetter(
    "schemas",
    "current-schema-id",
    "partition-specs",
    "default-spec-id",
    "sort-orders",
    "default-sort-order-id",
)
_LOG_LENGTH = "write.metadata.previous-versions-max"
_DEFAULT_LOG_LENGTH = 100
_PERSISTED = {"write.parquet.compression-codec": "zstd"}
"""Properties that Iceberg's reference server writes into every new table. Writers use older defaults without them."""
# Values that have their own fields in the metadata. Copies in properties could contradict those fields later.
_RESERVED = (
    FORMAT_VERSION,
    "uuid",
    "snapshot-count",
    "current-snapshot-id",
    "current-snapshot-summary",
    "current-snapshot-timestamp-ms",
    "current-schema",
    "default-partition-spec",
    "default-sort-order",
)


def empty_table(*, uuid: str, format_version: int) -> Document:
    """The empty metadata to which the updates of a staged creation are applied."""
    table: Document = {
        "format-version": format_version,
        "table-uuid": uuid,
        "last-sequence-number": 0,
        "last-column-id": 0,
        "schemas": [],
        "partition-specs": [],
        "last-partition-id": FIRST_FIELD_ID - 1,
        "sort-orders": [],
        "properties": {},
        "snapshots": [],
        "refs": {},
        "snapshot-log": [],
        "metadata-log": [],
        "statistics": [],
        "partition-statistics": [],
    }
    return {**table, "next-row-id": 0} if format_version >= 3 else table


def new_table(
    *,
    uuid: str,
    location: str,
    schema: Document,
    spec: Document | None,
    order: Document | None,
    properties: Mapping[str, str],
    now_ms: int,
) -> Document:
    """The first metadata of a table. Its columns get new ids, starting at 1."""
    version = _format_version(properties)
    schema, spec, order = without_nulls([schema, spec or {"fields": []}, order or UNSORTED])
    require_schema(schema, format_version=version)
    numbered, new_ids = with_new_ids(schema)
    edit = Edit.of(empty_table(uuid=uuid, format_version=version), now_ms=now_ms)
    edit = edit.put(location=location.rstrip("/"), properties=without({**_PERSISTED, **properties}, *_RESERVED))
    edit = set_current_schema(with_schema(edit, numbered), {"schema-id": LAST_ADDED})
    # Partition field ids that the client chose have no meaning yet, so they are replaced.
    edit = add_spec(edit, {"spec": _renumbered(spec, new_ids, drop="field-id")})
    edit = add_sort_order(set_default_spec(edit, {"spec-id": LAST_ADDED}), {"sort-order": _renumbered(order, new_ids)})
    edit = set_default_sort_order(edit, {"sort-order-id": LAST_ADDED})
    return _finish(edit, before=None)


def _format_version(properties: Mapping[str, str]) -> int:
    requested = properties.get(FORMAT_VERSION, str(DEFAULT_FORMAT))
    if requested not in [str(version) for version in range(1, NEWEST_FORMAT + 1)]:
        raise InvalidInput(
            f"format-version {requested!r} is not supported; use 1 to {NEWEST_FORMAT}", field="properties"
        )
    return int(requested)


def _renumbered(part: Document, new_ids: Mapping[int, int], *, drop: str = "") -> Document:
    """A spec or order of the request, converted to the new ids of the schema."""
    fields = []
    for field in documents_of(part, "fields"):
        source = number_of(field, "source-id")
        if source not in new_ids:
            raise InvalidInput(f"source-id {source} is not in the schema", field="source-id")
        fields.append({**without(field, drop), "source-id": new_ids[source]})
    return {**part, "fields": fields}


def created_by(updates: Sequence[Document], *, uuid: str, now_ms: int) -> Document:
    """The table that the commit of a staged creation creates."""
    requested = [update for update in updates if update.get("action") == "upgrade-format-version"]
    version = number_of(requested[0], FORMAT_VERSION) if requested else DEFAULT_FORMAT
    if not 1 <= version <= NEWEST_FORMAT:
        raise InvalidInput(f"format version {version} is not supported; use 1 to {NEWEST_FORMAT}", field="updates")
    edit = apply_each(Edit.of(empty_table(uuid=uuid, format_version=version), now_ms=now_ms), updates)
    for part, what in (("location", "location"), ("default-spec-id", "spec"), ("default-sort-order-id", "sort order")):
        if part not in edit.doc:
            raise InvalidInput(f"the new table has no {what}; the updates must set it", field="updates")
    return _finish(edit, before=None)


def updated(table: Document, updates: Sequence[Document], *, now_ms: int) -> Document:
    """The table after the updates of one commit; the identical object if they change nothing."""
    edit = apply_each(Edit.of(table, now_ms=now_ms), updates)
    return table if edit.doc == table else _finish(edit, before=table)


def has_same_shape(before: Document, after: Document) -> bool:
    """Whether an update left the columns, partition specs and sort orders of a table unchanged."""
    return all(map(is_, _shape(before), _shape(after)))


def _require_consistent(doc: Document) -> None:
    """Require that the current schema, spec and sort order exist and fit together."""
    schema = current_schema(doc)
    require_sources(_default(doc, "partition-specs", "spec-id", "default-spec-id"), schema)
    require_fitting_order(_default(doc, "sort-orders", "order-id", "default-sort-order-id"), schema)


def _require_schemas_of_snapshots(before: Document, after: Document) -> None:
    """Keep the schema of every snapshot, because time travel reads use it.

    If a schema were removed, a new schema could reuse its id, and such reads would lack columns.
    """
    kept = {each["schema-id"] for each in after["schemas"]}
    gone = {each["schema-id"] for each in before["schemas"]} - kept
    dependents = [each for each in after["snapshots"] if each.get("schema-id") in gone] if gone else ()
    if dependents:
        # 409 and not 400: another writer may have added the snapshot after the client read the table.
        id, schema = dependents[0]["snapshot-id"], dependents[0]["schema-id"]
        raise RequirementFailed(f"the schema {schema} cannot be removed: snapshot {id} uses it", field="updates")


def _finish(edit: Edit, *, before: Document | None) -> Document:
    if before is None or not has_same_shape(before, edit.doc):
        _require_consistent(edit.doc)
        _require_schemas_of_snapshots(before or {"schemas": []}, edit.doc)
    log = pruned_snapshot_log(edit)
    edit = edit.put(snapshot_log=log, last_updated_ms=_last_updated_ms(edit.now_ms, log, before))
    if edit.format_version > 1:
        return without(edit.doc, "schema", "partition-spec")
    # Readers of format version 1 expect these two fields and do not read the lists.
    spec = _default(edit.doc, "partition-specs", "spec-id", "default-spec-id")
    return {**edit.doc, "schema": current_schema(edit.doc), "partition-spec": spec["fields"]}


def _default(table: Document, part: str, key: str, chosen: str) -> Document:
    found = with_id(table[part], key, table[chosen])
    if found is None:
        raise InvalidInput(f"{chosen} is {table[chosen]}, which is not among the {part}", field=chosen)
    return found


def _last_updated_ms(now_ms: int, log: Sequence[Document], before: Document | None) -> int:
    """A time that is not before any log entry.

    Java refuses to read a table whose log is more than a minute ahead of its last update. A writer whose clock
    is fast must not make the table unreadable.
    """
    return max(now_ms, before["last-updated-ms"] if before else 0, log[-1]["timestamp-ms"] if log else 0)


def following(table: Document, before: Document, location: str) -> Document:
    """The table with the replaced metadata file appended to its metadata log."""
    requested = table["properties"].get(_LOG_LENGTH, "")
    longest = max(1, int(requested)) if requested.isdecimal() and len(requested) < 10 else _DEFAULT_LOG_LENGTH
    entry = {"timestamp-ms": before["last-updated-ms"], "metadata-file": location}
    return {**table, "metadata-log": [*before["metadata-log"], entry][-longest:]}


def with_refs_only(table: Document) -> Document:
    """The table with only the snapshots that a branch or tag points to: enough to read the newest rows."""
    kept = {ref["snapshot-id"] for ref in table["refs"].values()}
    return {**table, "snapshots": [each for each in table["snapshots"] if each["snapshot-id"] in kept]}


def parse_table(raw: Document) -> Document:
    """Metadata from a file that another catalog wrote, normalized to the form that this catalog writes."""
    version = number_of(raw, FORMAT_VERSION)
    if not 1 <= version <= NEWEST_FORMAT:
        raise InvalidInput(f"format version {version} is not supported; use 1 to {NEWEST_FORMAT}", field=FORMAT_VERSION)
    text_of(raw, "location")
    number_of(raw, "last-updated-ms")
    require_uuid(raw, "table-uuid")
    table: Document = {**empty_table(uuid=raw["table-uuid"], format_version=version), **without_nulls(raw)}
    if version == 1:
        table = _with_lists(table)
    table["schemas"] = [{"type": "struct", **schema} for schema in documents_of(table, "schemas")]
    table["partition-specs"] = _numbered(documents_of(table, "partition-specs"))
    table["last-partition-id"] = _last_partition_id(raw, table["partition-specs"])
    if table.get("current-snapshot-id") == -1:
        del table["current-snapshot-id"]
    _require_parts(table, version)
    current = number_or_none(table, "current-snapshot-id")
    if current is not None and MAIN not in table["refs"]:
        table["refs"] = {**table["refs"], MAIN: {"snapshot-id": current, "type": "branch"}}
    require_history(table)
    _require_consistent(table)
    return table


def _with_lists(table: Document) -> Document:
    """Files of format version 1 may have one schema and one spec instead of lists of them."""
    table = dict(table)
    if not table["schemas"]:
        table["schemas"] = [{"schema-id": 0, **document_of(table, "schema")}]
        table["current-schema-id"] = table["schemas"][0]["schema-id"]
    if not table["partition-specs"]:
        table["partition-specs"] = _numbered([{"spec-id": 0, "fields": table.get("partition-spec", [])}])
        table["default-spec-id"] = 0
    if not table["sort-orders"]:
        table["sort-orders"], table["default-sort-order-id"] = [UNSORTED], 0
    return table


def _numbered(specs: Sequence[Document]) -> list[Document]:
    """Assign ids to partition fields, which old files lack. Equal fields get equal ids."""
    numbered: list[Document] = []
    for spec in specs:
        id_of(spec, "spec-id")
        last = max((last_field_id(each) for each in numbered), default=0)
        numbered.append(numbered_spec(spec, {"partition-specs": numbered, "last-partition-id": last}))
    return numbered


def _last_partition_id(raw: Document, specs: Sequence[Document]) -> int:
    """The highest id that a partition field ever had. Only files of format version 1 may omit it."""
    highest = max((last_field_id(spec) for spec in specs), default=FIRST_FIELD_ID - 1)
    if raw[FORMAT_VERSION] == 1 and raw.get("last-partition-id") is None:
        return highest
    last = id_of(raw, "last-partition-id")
    if last < highest:
        raise InvalidInput(f"last-partition-id is below the partition field id {highest}", field="last-partition-id")
    return last


def _require_parts(table: Document, version: int) -> None:
    properties_of(table, "properties")
    document_of(table, "refs")
    for schema in documents_of(table, "schemas"):
        require_schema(schema, format_version=version)
    for order in documents_of(table, "sort-orders"):
        if bool(parse_order(order)["fields"]) == (order.get("order-id") == UNSORTED["order-id"]):
            raise InvalidInput(
                "order-id 0 must belong to the sort order without fields, and to no other", field="sort-orders"
            )
    _require_ids(table)
    _require_extras(table)


def _require_extras(table: Document) -> None:
    for file in documents_of(table, "statistics"):
        require_statistics(file)
    for file in documents_of(table, "partition-statistics"):
        require_partition_statistics(file)
    if "encryption-keys" in table:
        for key in documents_of(table, "encryption-keys"):
            require_key(key)


def _require_ids(table: Document) -> None:
    for number in ("current-schema-id", "default-spec-id", "default-sort-order-id"):
        id_of(table, number)
    for part, key in _ID_KEYS.items():
        if len({id_of(each, key) for each in table[part]}) < len(table[part]):
            raise InvalidInput(f"two of the {part} have the same {key}", field=part)
    highest = max((highest_id(schema) for schema in table["schemas"]), default=0)
    if id_of(table, "last-column-id") < highest:
        raise InvalidInput(f"last-column-id is below the column id {highest}", field="last-column-id")
