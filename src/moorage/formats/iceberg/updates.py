"""Updates of table metadata: plain data, and one pure function for each kind."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence

from moorage.core.errors import InvalidInput, MoorageError
from moorage.formats.iceberg import snapshots
from moorage.formats.iceberg.documents import (
    Document,
    document_of,
    number_of,
    numbers_of,
    properties_of,
    text_of,
    texts_of,
    with_id,
    without,
)
from moorage.formats.iceberg.edits import Edit
from moorage.formats.iceberg.partitions import (
    is_same_spec,
    last_field_id,
    numbered_spec,
    require_fitting_spec,
)
from moorage.formats.iceberg.schemas import current_schema, highest_id, is_same_schema, require_schema
from moorage.formats.iceberg.sort_orders import UNSORTED, parse_order, require_fitting_order
from moorage.formats.iceberg.table_uuids import require_uuid

NEWEST_FORMAT = 3
LAST_ADDED = -1


def assign_uuid(edit: Edit, update: Document) -> Edit:
    return edit.put(table_uuid=require_uuid(update, "uuid"))


def upgrade_format_version(edit: Edit, update: Document) -> Edit:
    version, now = number_of(update, "format-version"), edit.format_version
    if not 1 <= version <= NEWEST_FORMAT:
        raise InvalidInput(
            f"format version {version} is not supported; use 1 to {NEWEST_FORMAT}", field="format-version"
        )
    if version < now:
        raise InvalidInput(f"a table of format version {now} cannot be downgraded to {version}", field="format-version")
    edit = edit.put(format_version=version)
    return edit.put(next_row_id=0) if version >= 3 and "next-row-id" not in edit.doc else edit


def add_schema(edit: Edit, update: Document) -> Edit:
    schema = document_of(update, "schema")
    require_schema(schema, format_version=edit.format_version)
    return with_schema(edit, schema)


def with_schema(edit: Edit, schema: Document) -> Edit:
    """Add a schema that is already checked."""
    last = max(edit.doc["last-column-id"], highest_id(schema))
    for known in edit.doc["schemas"]:
        if is_same_schema(known, schema):
            return edit.put(last_column_id=last).with_state(schema_id=known["schema-id"])
    id = max((known["schema-id"] for known in edit.doc["schemas"]), default=-1) + 1
    # The keys are in the order of the specification, because people read these files.
    named = {"type": "struct", "schema-id": id, **without(schema, "type", "schema-id")}
    return edit.put(schemas=[*edit.doc["schemas"], named], last_column_id=last).with_state(schema_id=id)


def set_current_schema(edit: Edit, update: Document) -> Edit:
    id = _resolve_id(edit.schema_id, number_of(update, "schema-id"), "schema-id")
    if with_id(edit.doc["schemas"], "schema-id", id) is None:
        raise InvalidInput(f"the table has no schema {id}", field="schema-id")
    return edit.put(current_schema_id=id)


def remove_schemas(edit: Edit, update: Document) -> Edit:
    gone = set(numbers_of(update, "schema-ids"))
    if edit.doc.get("current-schema-id") in gone:
        raise InvalidInput("the current schema cannot be removed", field="schema-ids")
    return edit.put(schemas=[each for each in edit.doc["schemas"] if each["schema-id"] not in gone])


def _schema(edit: Edit) -> Document:
    """The schema that specs and orders refer to. DuckDB sets the current schema of a new table only at the end."""
    if "current-schema-id" in edit.doc or edit.schema_id is None:
        return current_schema(edit.doc)
    return current_schema({**edit.doc, "current-schema-id": edit.schema_id})


def add_spec(edit: Edit, update: Document) -> Edit:
    spec = numbered_spec(document_of(update, "spec"), edit.doc)
    for known in edit.doc["partition-specs"]:
        if is_same_spec(known, spec):
            return edit.with_state(spec_id=known["spec-id"])
    require_fitting_spec(spec, _schema(edit), format_version=edit.format_version)
    id = max((known["spec-id"] for known in edit.doc["partition-specs"]), default=-1) + 1
    last = max(edit.doc["last-partition-id"], last_field_id(spec))
    specs = [*edit.doc["partition-specs"], {**spec, "spec-id": id}]
    return edit.put(partition_specs=specs, last_partition_id=last).with_state(spec_id=id)


def set_default_spec(edit: Edit, update: Document) -> Edit:
    id = _resolve_id(edit.spec_id, number_of(update, "spec-id"), "spec-id")
    if with_id(edit.doc["partition-specs"], "spec-id", id) is None:
        raise InvalidInput(f"the table has no partition spec {id}", field="spec-id")
    return edit.put(default_spec_id=id)


def remove_partition_specs(edit: Edit, update: Document) -> Edit:
    gone = set(numbers_of(update, "spec-ids"))
    if edit.doc.get("default-spec-id") in gone:
        raise InvalidInput("the default partition spec cannot be removed", field="spec-ids")
    return edit.put(partition_specs=[each for each in edit.doc["partition-specs"] if each["spec-id"] not in gone])


def add_sort_order(edit: Edit, update: Document) -> Edit:
    order = parse_order(document_of(update, "sort-order"))
    for known in edit.doc["sort-orders"]:
        if known["fields"] == order["fields"]:
            return edit.with_state(order_id=known["order-id"])
    require_fitting_order(order, _schema(edit))
    # 0 always means unsorted, so the first real order is 1.
    id = 1 + max((known["order-id"] for known in edit.doc["sort-orders"]), default=0) if order["fields"] else 0
    named = {**order, "order-id": id} if order["fields"] else UNSORTED
    return edit.put(sort_orders=[*edit.doc["sort-orders"], named]).with_state(order_id=id)


def set_default_sort_order(edit: Edit, update: Document) -> Edit:
    id = _resolve_id(edit.order_id, number_of(update, "sort-order-id"), "sort-order-id")
    if with_id(edit.doc["sort-orders"], "order-id", id) is None:
        raise InvalidInput(f"the table has no sort order {id}", field="sort-order-id")
    return edit.put(default_sort_order_id=id)


def _resolve_id(last_added: int | None, id: int, field: str) -> int:
    if id != LAST_ADDED:
        return id
    if last_added is None:
        raise InvalidInput(f"{field} is -1, the last one added, but this request adds none", field=field)
    return last_added


def set_location(edit: Edit, update: Document) -> Edit:
    return edit.put(location=text_of(update, "location").rstrip("/"))


def set_properties(edit: Edit, update: Document) -> Edit:
    edit.own("properties").update(properties_of(update, "updates"))
    return edit


def remove_properties(edit: Edit, update: Document) -> Edit:
    for name in texts_of(update, "removals"):
        edit.own("properties").pop(name, None)
    return edit


def add_encryption_key(edit: Edit, update: Document) -> Edit:
    key = document_of(update, "encryption-key")
    require_key(key)
    keys = edit.doc.get("encryption-keys", [])
    known = with_id(keys, "key-id", key["key-id"])
    if known is None:
        return edit.put(encryption_keys=[*keys, key])
    if known["encrypted-key-metadata"] != key["encrypted-key-metadata"]:
        # Data that was written with the new key could never be read.
        raise InvalidInput(f"the table has another key with the id {key['key-id']!r}", field="encryption-key.value-id")
    return edit


def require_key(key: Document) -> None:
    """Require an encryption key in the form that every reader of the table supports."""
    text_of(key, "key-id")
    try:
        b64decode(text_of(key, "encrypted-key-metadata"), validate=True)
    except ValueError:
        raise InvalidInput("encrypted-key-metadata must be in base64", field="encrypted-key-metadata") from None
    if "encrypted-by-id" in key:
        text_of(key, "encrypted-by-id")
    if "properties" in key:
        properties_of(key, "properties")


def remove_encryption_key(edit: Edit, update: Document) -> Edit:
    id = text_of(update, "key-id")
    keys = edit.doc.get("encryption-keys", [])
    kept = [known for known in keys if known["key-id"] != id]
    return edit if len(kept) == len(keys) else edit.put(encryption_keys=kept or None)


UPDATES: dict[str, Callable[[Edit, Document], Edit]] = {
    "assign-uuid": assign_uuid,
    "upgrade-format-version": upgrade_format_version,
    "add-schema": add_schema,
    "set-current-schema": set_current_schema,
    "remove-schemas": remove_schemas,
    "add-spec": add_spec,
    "set-default-spec": set_default_spec,
    "remove-partition-specs": remove_partition_specs,
    "add-sort-order": add_sort_order,
    "set-default-sort-order": set_default_sort_order,
    "add-snapshot": snapshots.add_snapshot,
    "set-snapshot-ref": snapshots.set_snapshot_ref,
    "remove-snapshots": snapshots.remove_snapshots,
    "remove-snapshot-ref": snapshots.remove_snapshot_ref,
    "set-location": set_location,
    "set-properties": set_properties,
    "remove-properties": remove_properties,
    "set-statistics": snapshots.set_statistics,
    "remove-statistics": snapshots.remove_statistics,
    "set-partition-statistics": snapshots.set_partition_statistics,
    "remove-partition-statistics": snapshots.remove_partition_statistics,
    "add-encryption-key": add_encryption_key,
    "remove-encryption-key": remove_encryption_key,
}


def apply_each(
    edit: Edit, updates: Sequence[Document], known: Mapping[str, Callable[[Edit, Document], Edit]] = UPDATES
) -> Edit:
    """Apply the updates in order. An error names the update that caused it."""
    for index, update in enumerate(updates):
        action = update.get("action")
        change = known.get(action) if isinstance(action, str) else None
        if change is None:
            raise InvalidInput(f"updates[{index}]: unknown update {action!r}", field=f"updates[{index}].action")
        try:
            edit = change(edit, update)
        except MoorageError as error:
            raise _with_path(error, f"updates[{index}]") from None
    return edit


def _with_path(error: MoorageError, where: str) -> MoorageError:
    field = f"{where}.{error.field}" if error.field else where
    return type(error)(f"{where}: {error.message}", field=field, **error.details)
