"""The requirements and updates of a commit, named as in the specification.

A request is parsed into these structs, so that an error names its path. It is then converted to plain documents.
The rules are in `updates`, `views` and `requirements`. Parts that the table specification defines stay unparsed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.formats.iceberg.documents import without_nulls

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Part = dict[str, Any]
Schema = Annotated[dict[str, Any], Meta(description="A struct type with field ids.")]
LastAdded = Annotated[int, Meta(ge=-1, le=2**31 - 1, description="-1 means the one that this request added last.")]


class _Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab", tag_field="action"):
    """One update."""


class _Requirement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="kebab", tag_field="type"):
    """One requirement."""


# --- tables and views ------------------------------------------------------------------------------


class AssignUUIDUpdate(_Change, frozen=True, kw_only=True, tag="assign-uuid"):
    """Assign a UUID to the table."""

    uuid: str


class UpgradeFormatVersionUpdate(_Change, frozen=True, kw_only=True, tag="upgrade-format-version"):
    """Upgrade to a newer format version."""

    format_version: Int64


class AddSchemaUpdate(_Change, frozen=True, kw_only=True, tag="add-schema"):
    """Add a schema."""

    schema: Schema


class SetLocationUpdate(_Change, frozen=True, kw_only=True, tag="set-location"):
    """Set the location of new files."""

    location: str


class SetPropertiesUpdate(_Change, frozen=True, kw_only=True, tag="set-properties"):
    """Add or change properties."""

    updates: dict[str, str]


class RemovePropertiesUpdate(_Change, frozen=True, kw_only=True, tag="remove-properties"):
    """Remove properties."""

    removals: list[str]


# --- tables ----------------------------------------------------------------------------------------


class SetCurrentSchemaUpdate(_Change, frozen=True, kw_only=True, tag="set-current-schema"):
    """Set the current schema."""

    schema_id: LastAdded


class RemoveSchemasUpdate(_Change, frozen=True, kw_only=True, tag="remove-schemas"):
    """Remove unused schemas."""

    schema_ids: list[Int64]


class AddPartitionSpecUpdate(_Change, frozen=True, kw_only=True, tag="add-spec"):
    """Add a partition spec."""

    spec: Part


class SetDefaultSpecUpdate(_Change, frozen=True, kw_only=True, tag="set-default-spec"):
    """Set the default partition spec."""

    spec_id: LastAdded


class RemovePartitionSpecsUpdate(_Change, frozen=True, kw_only=True, tag="remove-partition-specs"):
    """Remove unused partition specs."""

    spec_ids: list[Int64]


class AddSortOrderUpdate(_Change, frozen=True, kw_only=True, tag="add-sort-order"):
    """Add a sort order."""

    sort_order: Part


class SetDefaultSortOrderUpdate(_Change, frozen=True, kw_only=True, tag="set-default-sort-order"):
    """Set the default sort order."""

    sort_order_id: LastAdded


class AddSnapshotUpdate(_Change, frozen=True, kw_only=True, tag="add-snapshot"):
    """Add a snapshot. No branch points to it yet."""

    snapshot: Part


class SetSnapshotRefUpdate(_Change, frozen=True, kw_only=True, tag="set-snapshot-ref"):
    """Set a branch or tag to a snapshot."""

    ref_name: str
    type: str
    snapshot_id: Int64
    max_ref_age_ms: Int64 | None = None
    max_snapshot_age_ms: Int64 | None = None
    min_snapshots_to_keep: Int64 | None = None


class RemoveSnapshotsUpdate(_Change, frozen=True, kw_only=True, tag="remove-snapshots"):
    """Remove snapshots with their branches, tags and statistics."""

    snapshot_ids: list[Int64]


class RemoveSnapshotRefUpdate(_Change, frozen=True, kw_only=True, tag="remove-snapshot-ref"):
    """Remove a branch or tag."""

    ref_name: str


class SetStatisticsUpdate(_Change, frozen=True, kw_only=True, tag="set-statistics"):
    """Set the statistics of a snapshot."""

    statistics: Part


class RemoveStatisticsUpdate(_Change, frozen=True, kw_only=True, tag="remove-statistics"):
    """Remove the statistics of a snapshot."""

    snapshot_id: Int64


class SetPartitionStatisticsUpdate(_Change, frozen=True, kw_only=True, tag="set-partition-statistics"):
    """Set the partition statistics of a snapshot."""

    partition_statistics: Part


class RemovePartitionStatisticsUpdate(_Change, frozen=True, kw_only=True, tag="remove-partition-statistics"):
    """Remove the partition statistics of a snapshot."""

    snapshot_id: Int64


class AddEncryptionKeyUpdate(_Change, frozen=True, kw_only=True, tag="add-encryption-key"):
    """Add an encryption key."""

    encryption_key: Part


class RemoveEncryptionKeyUpdate(_Change, frozen=True, kw_only=True, tag="remove-encryption-key"):
    """Remove an encryption key."""

    key_id: str


TableUpdate = (
    AssignUUIDUpdate
    | UpgradeFormatVersionUpdate
    | AddSchemaUpdate
    | SetCurrentSchemaUpdate
    | RemoveSchemasUpdate
    | AddPartitionSpecUpdate
    | SetDefaultSpecUpdate
    | RemovePartitionSpecsUpdate
    | AddSortOrderUpdate
    | SetDefaultSortOrderUpdate
    | AddSnapshotUpdate
    | SetSnapshotRefUpdate
    | RemoveSnapshotsUpdate
    | RemoveSnapshotRefUpdate
    | SetLocationUpdate
    | SetPropertiesUpdate
    | RemovePropertiesUpdate
    | SetStatisticsUpdate
    | RemoveStatisticsUpdate
    | SetPartitionStatisticsUpdate
    | RemovePartitionStatisticsUpdate
    | AddEncryptionKeyUpdate
    | RemoveEncryptionKeyUpdate
)


class AssertCreate(_Requirement, frozen=True, kw_only=True, tag="assert-create"):
    """The table does not exist. The commit creates it."""


class AssertTableUUID(_Requirement, frozen=True, kw_only=True, tag="assert-table-uuid"):
    """The table has this UUID."""

    uuid: str


class AssertRefSnapshotId(_Requirement, frozen=True, kw_only=True, tag="assert-ref-snapshot-id"):
    """The branch or tag points to this snapshot. Null means that the branch or tag does not exist."""

    ref: str
    snapshot_id: Int64 | None = None


class AssertLastAssignedFieldId(_Requirement, frozen=True, kw_only=True, tag="assert-last-assigned-field-id"):
    """The highest assigned column id is this one: no column was added since."""

    last_assigned_field_id: Int64


class AssertCurrentSchemaId(_Requirement, frozen=True, kw_only=True, tag="assert-current-schema-id"):
    """The current schema has this id."""

    current_schema_id: Int64


class AssertLastAssignedPartitionId(_Requirement, frozen=True, kw_only=True, tag="assert-last-assigned-partition-id"):
    """The highest assigned partition field id is this one: no partition field was added since."""

    last_assigned_partition_id: Int64


class AssertDefaultSpecId(_Requirement, frozen=True, kw_only=True, tag="assert-default-spec-id"):
    """The default partition spec has this id."""

    default_spec_id: Int64


class AssertDefaultSortOrderId(_Requirement, frozen=True, kw_only=True, tag="assert-default-sort-order-id"):
    """The default sort order has this id."""

    default_sort_order_id: Int64


TableRequirement = (
    AssertCreate
    | AssertTableUUID
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)

# --- views -----------------------------------------------------------------------------------------


class AddViewVersionUpdate(_Change, frozen=True, kw_only=True, tag="add-view-version"):
    """Add a view version."""

    view_version: Part


class SetCurrentViewVersionUpdate(_Change, frozen=True, kw_only=True, tag="set-current-view-version"):
    """Set the current view version."""

    view_version_id: LastAdded


ViewUpdate = (
    AssignUUIDUpdate
    | UpgradeFormatVersionUpdate
    | AddSchemaUpdate
    | SetLocationUpdate
    | SetPropertiesUpdate
    | RemovePropertiesUpdate
    | AddViewVersionUpdate
    | SetCurrentViewVersionUpdate
)


class AssertViewUUID(_Requirement, frozen=True, kw_only=True, tag="assert-view-uuid"):
    """The view has this UUID."""

    uuid: str


def to_documents(parts: Sequence[TableUpdate | TableRequirement | ViewUpdate | AssertViewUUID]) -> list[Part]:
    """Plain documents without nulls, in the form in which they are checked and applied."""
    text = msgspec.json.encode(parts)
    found: list[Part] = msgspec.json.decode(text)
    if b"null" in text:
        found = without_nulls(found)
    return found
