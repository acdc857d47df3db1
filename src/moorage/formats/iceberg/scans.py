"""Scans of a table: the request, and the files that can contain matching rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.deletes import DeleteIndex
from moorage.formats.iceberg.documents import Document, with_id
from moorage.formats.iceberg.expressions import Expression, parse_filter
from moorage.formats.iceberg.fields import Fields
from moorage.formats.iceberg.manifests import ContentFile, ManifestFile
from moorage.formats.iceberg.metrics import manifest_may_match
from moorage.formats.iceberg.residuals import Residual, projection, residuals
from moorage.formats.iceberg.schemas import current_schema
from moorage.formats.iceberg.specs import Spec, specs_of
from moorage.formats.iceberg.values import Partition

_Long = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class PlanTableScanRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", omit_defaults=True):
    """A scan of one snapshot, or of the appends between two snapshots."""

    snapshot_id: _Long | None = None
    select: tuple[str, ...] | None = None
    filter: Annotated[Any, Meta(description="An expression. Without it, the scan returns all rows.")] = None
    min_rows_requested: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    case_sensitive: bool | None = True
    use_snapshot_schema: bool | None = False
    start_snapshot_id: _Long | None = None
    end_snapshot_id: _Long | None = None
    stats_fields: tuple[str, ...] | None = None


class Task(msgspec.Struct, frozen=True, gc=False):
    """A data file to read, with its residual filter and its delete files."""

    file: ContentFile
    residual: Residual
    deletes: tuple[ContentFile, ...]


class Scan:
    """A scan request bound to its table."""

    def __init__(self, table: Document, asked: PlanTableScanRequest, *, schema_id: int | None = None) -> None:
        _require_one_kind(asked)
        self.asked = asked
        self.snapshot = _snapshot(table, asked)
        self.appends = _appends(table, asked)
        schemas = [_schema(table, asked, self.snapshot, schema_id)]
        if asked.use_snapshot_schema and schema_id is None:
            # Spark requests the snapshot's schema, but uses column names of the current schema.
            schemas.append(current_schema(table))
        self.schema, self.fields, self.filter = _bound(schemas, asked)
        # Unknown names are ignored: selected columns do not affect a plan, and readers do not depend on statistics.
        named = (self.fields.find(name) for name in asked.stats_fields or ())
        self.stats_ids = [field.id for field in named if field is not None]
        self.specs: dict[int, Spec] = specs_of(table)
        self._projections: dict[int, Expression] = {}
        self._residuals: dict[int, Callable[[Partition], Residual]] = {}

    def keeps(self, manifest: ManifestFile) -> bool:
        """Whether a manifest can have files with matching rows."""
        if self.appends is not None and (manifest.is_deletes or manifest.snapshot_id not in self.appends):
            return False
        if manifest.live == 0:
            return False
        spec_id = manifest.spec_id
        if spec_id is None or manifest.summaries is None or spec_id not in self.specs:
            return self.filter is not False
        if spec_id not in self._projections:
            self._projections[spec_id] = projection(self.filter, self.specs[spec_id])
        return manifest_may_match(self._projections[spec_id], manifest.summaries)

    def tasks(self, files: Iterable[ContentFile], deletes: DeleteIndex) -> Iterator[Task]:
        """The files that can have matching rows."""
        spec_id, residual_of = None, residuals(self.filter, ())
        for file in files:
            if self.appends is not None and not (file.is_added and file.added_by in self.appends):
                continue
            if file.spec_id != spec_id:
                spec_id, residual_of = file.spec_id, self._residuals_of(file.spec_id)
            residual = residual_of(file.partition)
            if residual.may_match(file.stats):
                yield Task(file, residual, deletes.of(file))

    def _residuals_of(self, spec_id: int) -> Callable[[Partition], Residual]:
        if spec_id not in self._residuals:
            self._residuals[spec_id] = residuals(self.filter, self.specs[spec_id])
        return self._residuals[spec_id]


def _bound(schemas: list[Document], asked: PlanTableScanRequest) -> tuple[Document, Fields, Expression]:
    """The filter, bound to the first schema that has all its columns."""
    schema, *others = schemas
    fields = Fields(schema, case_sensitive=asked.case_sensitive is not False)
    try:
        return schema, fields, asked.filter is None or parse_filter(asked.filter, fields)
    except InvalidInput:
        if not others:
            raise
        return _bound(others, asked)


def limit_to_rows(tasks: Iterable[Task], rows: int | None) -> tuple[list[Task], bool]:
    """The first tasks that together have this many rows, and whether they do.

    Only files of which every row matches are counted.
    """
    if rows is None:
        return list(tasks), False
    found: list[Task] = []
    matching = 0
    for task in tasks:
        found.append(task)
        if task.residual.expression is True and not task.deletes:
            matching += task.file.records
            if matching >= rows:
                return found, True
    return found, False


def _require_one_kind(asked: PlanTableScanRequest) -> None:
    start, end = asked.start_snapshot_id, asked.end_snapshot_id
    if asked.snapshot_id is not None and (start is not None or end is not None):
        raise InvalidInput(
            "snapshot-id cannot be combined with start-snapshot-id or end-snapshot-id",
            field="snapshot-id",
        )
    if (start is None) != (end is None):
        field = "end-snapshot-id" if end is None else "start-snapshot-id"
        raise InvalidInput(
            f"{field} is required: start-snapshot-id and end-snapshot-id must be given together", field=field
        )


def _snapshot(table: Document, asked: PlanTableScanRequest) -> Document | None:
    """The scanned snapshot, or the end of an incremental scan; None for a table without snapshots."""
    snapshot_id, field = asked.end_snapshot_id, "end-snapshot-id"
    if snapshot_id is None:
        snapshot_id, field = asked.snapshot_id, "snapshot-id"
    if snapshot_id is None:
        current = table.get("current-snapshot-id")
        return None if current is None else with_id(table["snapshots"], "snapshot-id", current)
    found = with_id(table["snapshots"], "snapshot-id", snapshot_id)
    if found is None:
        raise InvalidInput(f"{field}: the table has no snapshot {snapshot_id}", field=field)
    return found


def _appends(table: Document, asked: PlanTableScanRequest) -> frozenset[int] | None:
    """The append snapshots after the start, up to the end; None for a scan of one snapshot."""
    if asked.start_snapshot_id is None:
        return None
    by_id = {snapshot["snapshot-id"]: snapshot for snapshot in table["snapshots"]}
    found, at = set[int](), asked.end_snapshot_id
    while at != asked.start_snapshot_id:
        snapshot = by_id.get(at) if at is not None else None
        if snapshot is None:
            raise InvalidInput(
                f"start-snapshot-id: {asked.start_snapshot_id} is not an ancestor of {asked.end_snapshot_id}",
                field="start-snapshot-id",
            )
        if (snapshot.get("summary") or {}).get("operation") == "append":
            found.add(snapshot["snapshot-id"])
        at = snapshot.get("parent-snapshot-id")
        by_id.pop(snapshot["snapshot-id"])  # ends the loop if the parents form a cycle
    return frozenset(found)


def _schema(table: Document, asked: PlanTableScanRequest, snapshot: Document | None, schema_id: int | None) -> Document:
    if schema_id is None and asked.use_snapshot_schema and snapshot is not None:
        schema_id = snapshot.get("schema-id")
    if schema_id is None:
        return current_schema(table)
    found = with_id(table["schemas"], "schema-id", schema_id)
    if found is None:
        raise InvalidInput(f"the table no longer has the schema {schema_id} of this snapshot", field="snapshot-id")
    return found
