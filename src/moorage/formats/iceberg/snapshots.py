"""Snapshots of a table, the branches and tags that point to them, and their statistics."""

from __future__ import annotations

import re
from itertools import pairwise

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.formats.iceberg.documents import (
    Document,
    document_of,
    documents_of,
    id_or_none,
    ids_of,
    number_of,
    number_or_none,
    numbers_of,
    properties_of,
    text_of,
    without,
)
from moorage.formats.iceberg.edits import Edit

MAIN = "main"

_OPERATIONS = ("append", "replace", "overwrite", "delete")
_REF_TYPES = ("branch", "tag")
_SKEW_MS = 60_000
"""The tolerance for log entries that go back in time, because the clocks of writers differ."""
_MIN_SNAPSHOTS = "min-snapshots-to-keep"
_APP_ID, _BATCH = "moorage.app-id", "moorage.batch"
"""In the summary of a snapshot: an ingest, and the number of its batch."""
_NUMBER = re.compile("[0-9]{1,18}")
_RETENTION_KEYS = (_MIN_SNAPSHOTS, "max-snapshot-age-ms", "max-ref-age-ms")


def add_snapshot(edit: Edit, update: Document) -> Edit:
    snapshot = document_of(update, "snapshot")
    id = require_snapshot(snapshot)
    if edit.format_version == 1:  # Java cannot read a table of format version 1 with sequence numbers
        snapshot = without(snapshot, "sequence-number")
    for part, what in (("schemas", "a schema"), ("partition-specs", "a spec"), ("sort-orders", "a sort order")):
        if not edit.doc[part]:
            raise InvalidInput(f"the table needs {what} before it can have snapshots", field="snapshot")
    if id in edit.snapshots():
        raise InvalidInput(f"snapshot {id} already exists", field="snapshot.snapshot-id")
    _require_new_batch(edit, snapshot)
    edit = _advance_sequence(edit, snapshot)
    if edit.format_version >= 3:
        edit = _advance_rows(edit, snapshot)
    edit.own("snapshots").append(snapshot)
    edit.snapshots()[id] = snapshot
    edit.added.add(id)
    return edit


def _require_new_batch(edit: Edit, snapshot: Document) -> None:
    """Accept each batch of an ingest once, in ascending order. Another machine may have repeated it at the same time.

    400 and not 409: Iceberg's client would make the snapshot again on the new head.
    """
    app_id, batch = _ingest_mark(snapshot)
    if app_id is None:
        return
    last = max((number for other, number in map(_ingest_mark, edit.doc["snapshots"]) if other == app_id), default=-1)
    if batch <= last:
        raise InvalidInput(
            f"the table has batch {last} of '{app_id}' already, and got {batch}", field="snapshot.summary"
        )


def _ingest_mark(snapshot: Document) -> tuple[str | None, int]:
    summary = snapshot.get("summary") or {}
    app_id, batch = summary.get(_APP_ID), str(summary.get(_BATCH))
    return (app_id, int(batch)) if app_id and _NUMBER.fullmatch(batch) else (None, -1)


def require_snapshot(snapshot: Document) -> int:
    """Check that every reader can read the snapshot, and return its id."""
    id = number_of(snapshot, "snapshot-id")
    number_of(snapshot, "timestamp-ms")
    for optional in ("parent-snapshot-id", "sequence-number"):
        number_or_none(snapshot, optional)
    id_or_none(snapshot, "schema-id")
    first, added = number_or_none(snapshot, "first-row-id"), number_or_none(snapshot, "added-rows")
    if first is not None and first < 0:
        raise InvalidInput(f"first-row-id must not be negative, got {first}", field="snapshot.first-row-id")
    if (first is not None and added is None) or (added is not None and not 0 <= added < 2**63 - (first or 0)):
        raise InvalidInput(
            "added-rows must be the number of rows with ids from first-row-id on", field="snapshot.added-rows"
        )
    if "manifests" not in snapshot:  # format version 1 may list manifests here instead
        text_of(snapshot, "manifest-list")
    if snapshot.get("summary") is not None and properties_of(snapshot, "summary").get("operation") not in _OPERATIONS:
        raise InvalidInput(
            f"summary.operation must be one of {', '.join(_OPERATIONS)}", field="snapshot.summary.operation"
        )
    return id


def require_history(table: Document) -> None:
    """Require that snapshots, refs and logs agree. Otherwise Java, Rust and Go cannot read the table."""
    known = {require_snapshot(snapshot) for snapshot in documents_of(table, "snapshots")}
    if len(known) < len(table["snapshots"]):
        raise InvalidInput("two snapshots have the same id", field="snapshots")
    last = number_of(table, "last-sequence-number")
    if table["format-version"] > 1 and any((each.get("sequence-number") or 0) > last for each in table["snapshots"]):
        raise InvalidInput("a snapshot has a sequence number above last-sequence-number", field="last-sequence-number")
    if table["format-version"] > 2:
        numbered = [each for each in table["snapshots"] if each.get("first-row-id") is not None]
        ends = [each["first-row-id"] + each["added-rows"] for each in numbered]
        if number_of(table, "next-row-id") < max(ends, default=0):
            raise InvalidInput(
                f"next-row-id must be at least {max(ends)}: lower row ids are in use", field="next-row-id"
            )
    refs = document_of(table, "refs")
    for name in refs:
        if _parse_ref(name, document_of(refs, name))["snapshot-id"] not in known:
            raise InvalidInput(f"ref '{name}' points to a snapshot that does not exist", field="refs")
    if refs.get(MAIN, {}).get("snapshot-id") != table.get("current-snapshot-id"):
        raise InvalidInput("the branch main does not point to the current snapshot", field="current-snapshot-id")
    _require_log(table, "snapshot-log")
    _require_log(table, "metadata-log")


def _require_log(table: Document, log: str) -> None:
    times = []
    for entry in documents_of(table, log):
        times.append(number_of(entry, "timestamp-ms"))
        if log == "metadata-log":
            text_of(entry, "metadata-file")
        else:
            number_of(entry, "snapshot-id")
    if any(later < earlier - _SKEW_MS for earlier, later in pairwise((*times, table["last-updated-ms"]))):
        raise InvalidInput(f"{log} goes back in time", field=log)


def _advance_sequence(edit: Edit, snapshot: Document) -> Edit:
    number, last = snapshot.get("sequence-number") or 0, edit.doc.get("last-sequence-number", 0)
    if edit.format_version == 1:
        return edit.put(last_sequence_number=max(number, last))
    if number <= last and snapshot.get("parent-snapshot-id") is not None:
        # 409 and not 400: the client read the table before another writer's commit.
        raise RequirementFailed(
            f"the snapshot's sequence number {number} is not above the table's {last}; read the table and retry",
            field="snapshot.sequence-number",
        )
    return edit.put(last_sequence_number=max(number, last))


def _advance_rows(edit: Edit, snapshot: Document) -> Edit:
    first, next_row = snapshot.get("first-row-id"), edit.doc.get("next-row-id", 0)
    if first is None:
        raise InvalidInput("format version 3 requires a first-row-id in every snapshot", field="snapshot.first-row-id")
    if first < next_row:
        raise RequirementFailed(
            f"the first-row-id {first} is below the table's next-row-id {next_row}; read the table and retry",
            field="snapshot.first-row-id",
        )
    # Count from the snapshot's own first-row-id. If a writer left a gap, the next id is still above all assigned ids.
    return edit.put(next_row_id=first + snapshot["added-rows"])


def set_snapshot_ref(edit: Edit, update: Document) -> Edit:
    name = text_of(update, "ref-name")
    ref = _parse_ref(name, update)
    id = ref["snapshot-id"]
    if edit.doc["refs"].get(name) == ref:
        return edit
    if id not in edit.snapshots():
        raise InvalidInput(f"ref '{name}' cannot be set to snapshot {id}, which does not exist", field="snapshot-id")
    edit.own("refs")[name] = ref
    return _set_main(edit, id) if name == MAIN else edit


def _parse_ref(name: str, raw: Document) -> Document:
    kind = raw.get("type")
    if kind not in _REF_TYPES or (name == MAIN and kind != "branch"):
        raise InvalidInput(f"ref '{name}' must be a branch{'' if name == MAIN else ' or a tag'}", field="type")
    ref = {"snapshot-id": number_of(raw, "snapshot-id"), "type": kind}
    for key in _RETENTION_KEYS:
        value = number_or_none(raw, key)
        if value is not None:
            if value <= 0 or (kind == "tag" and key != "max-ref-age-ms") or (key == _MIN_SNAPSHOTS and value >= 2**31):
                raise InvalidInput(f"{key} of {kind} '{name}' cannot be {value}", field=key)
            ref[key] = value
    return ref


def _set_main(edit: Edit, id: int) -> Edit:
    if edit.doc.get("current-snapshot-id") == id:
        return edit
    at_ms, log = edit.now_ms, edit.own("snapshot-log")
    if id in edit.added:
        # A writer's clock may be fast. Java does not write to a table whose log is ahead of time, and does not read one
        # whose log goes back in time.
        at_ms = min(at_ms, edit.snapshots()[id]["timestamp-ms"])
        edit.were_current.add(id)
    if log:
        at_ms = max(at_ms, log[-1]["timestamp-ms"])
    log.append({"snapshot-id": id, "timestamp-ms": at_ms})
    return edit.put(current_snapshot_id=id)


def remove_snapshot_ref(edit: Edit, update: Document) -> Edit:
    name = text_of(update, "ref-name")
    if name not in edit.doc["refs"]:
        return edit
    edit = edit.put(refs=without(edit.doc["refs"], name))
    return edit.put(current_snapshot_id=None) if name == MAIN and "current-snapshot-id" in edit.doc else edit


def remove_snapshots(edit: Edit, update: Document) -> Edit:
    """Remove snapshots with their branches, tags and statistics."""
    gone = set(numbers_of(update, "snapshot-ids"))
    kept = [snapshot for snapshot in edit.doc["snapshots"] if snapshot["snapshot-id"] not in gone]
    if len(kept) == len(edit.doc["snapshots"]):
        return edit
    for name in [name for name, ref in edit.doc["refs"].items() if ref["snapshot-id"] in gone]:
        edit = remove_snapshot_ref(edit, {"ref-name": name})
    for part in ("statistics", "partition-statistics"):
        edit = edit.put(**{part: [each for each in edit.doc[part] if each["snapshot-id"] not in gone]})
    edit.by_id.clear()
    return edit.put(snapshots=kept).with_state(has_removed_snapshots=True)


def pruned_snapshot_log(edit: Edit) -> list[Document]:
    """The snapshot log as the specification requires it.

    Snapshots that were current only within this request are not logged. If a snapshot was removed, its entry and
    every earlier entry are removed too, so that a time travel read does not select a wrong snapshot.
    """
    log: list[Document] = edit.doc["snapshot-log"]
    transient = edit.were_current - {edit.doc.get("current-snapshot-id")}
    if not transient and not edit.has_removed_snapshots:
        return log
    known = {snapshot["snapshot-id"] for snapshot in edit.doc["snapshots"]}
    kept: list[Document] = []
    for entry in log:
        if entry["snapshot-id"] not in known:
            kept = []
        elif entry["snapshot-id"] not in transient:
            kept.append(entry)
    return kept


def set_statistics(edit: Edit, update: Document) -> Edit:
    file = document_of(update, "statistics")
    require_statistics(file)
    return _set_file(edit, "statistics", file)


def set_partition_statistics(edit: Edit, update: Document) -> Edit:
    file = document_of(update, "partition-statistics")
    require_partition_statistics(file)
    return _set_file(edit, "partition-statistics", file)


def require_statistics(file: Document) -> None:
    """Require the fields of a statistics file that every reader of the table needs."""
    require_partition_statistics(file)
    number_of(file, "file-footer-size-in-bytes")
    for blob in documents_of(file, "blob-metadata"):
        text_of(blob, "type")
        number_of(blob, "snapshot-id")
        number_of(blob, "sequence-number")
        ids_of(blob, "fields")
        if "properties" in blob:
            properties_of(blob, "properties")


def require_partition_statistics(file: Document) -> None:
    number_of(file, "snapshot-id")
    text_of(file, "statistics-path")
    number_of(file, "file-size-in-bytes")


def _set_file(edit: Edit, part: str, file: Document) -> Edit:
    id = file["snapshot-id"]
    others = [each for each in edit.doc[part] if each["snapshot-id"] != id]
    return edit.put(**{part: [*others, file]})


def remove_statistics(edit: Edit, update: Document) -> Edit:
    return _remove_file(edit, "statistics", number_of(update, "snapshot-id"))


def remove_partition_statistics(edit: Edit, update: Document) -> Edit:
    return _remove_file(edit, "partition-statistics", number_of(update, "snapshot-id"))


def _remove_file(edit: Edit, part: str, id: int) -> Edit:
    return edit.put(**{part: [each for each in edit.doc[part] if each["snapshot-id"] != id]})
