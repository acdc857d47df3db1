"""Shares and their objects on the wire, with the names that Databricks uses."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from moorage.api.unity.shapes import Millis, Name, Properties, Stamped, Text, stamps
from moorage.core.errors import InvalidInput, Unsupported
from moorage.core.recipients import MAX_COMMENT, require_properties, require_text
from moorage.core.revisions import Revision
from moorage.core.securables import Doc, Securable
from moorage.core.shares import (
    DISPLAY_NAME,
    MAX_DISPLAY_NAME,
    Partition,
    PartitionValue,
    require_share_name,
)
from moorage.usecases.sharing.share_plan import Action, ObjectUpdate
from moorage.usecases.sharing.shares import SharedObject

Version = Annotated[int, Meta(ge=0, le=2**63 - 1)]
HistoryStatus = Literal["ENABLED", "DISABLED"]


class CreateShare(msgspec.Struct, frozen=True, kw_only=True):
    """The share to create."""

    name: Name
    comment: Text | None = None
    display_name: Text | None = None
    properties: Properties | None = None

    def doc(self) -> Doc:
        details = {} if self.display_name is None else {DISPLAY_NAME: self.display_name}
        require_text(self.display_name, "display_name", MAX_DISPLAY_NAME)
        return Doc(
            comment=require_text(self.comment, "comment", MAX_COMMENT),
            properties=require_properties(self.properties or {}, "properties"),
            details=details,
        )


class PartitionValueInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A condition on a partition column."""

    name: str
    op: Literal["EQUAL", "LIKE"] | None = None
    value: Annotated[str | None, Meta(description="Without a value, EQUAL means null.")] = None
    recipient_property_key: Annotated[
        str | None, Meta(description="The property of the recipient that is the value.")
    ] = None


class PartitionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions that must all hold. A row is shared if at least one partition holds."""

    values: list[PartitionValueInfo]


class DataObject(msgspec.Struct, frozen=True, kw_only=True):
    """A table or schema, and how it is shared."""

    name: Annotated[str, Meta(description="The full name of the table (catalog.schema.table) or schema.")]
    data_object_type: Annotated[
        str | None, Meta(description="TABLE or SCHEMA. The default follows from the number of names.")
    ] = None
    shared_as: Annotated[str | None, Meta(description="The name that recipients see: schema.table, or schema.")] = None
    comment: Text | None = None
    history_data_sharing_status: HistoryStatus | None = None
    cdf_enabled: Annotated[
        bool | None, Meta(description="The former name of history_data_sharing_status: true stands for ENABLED.")
    ] = None
    partitions: list[PartitionInfo] | None = None
    start_version: Version | None = None


class SharedDataObjectUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the objects of a share."""

    action: Action
    data_object: DataObject

    def update(self) -> ObjectUpdate:
        given = self.data_object
        history = given.history_data_sharing_status
        return ObjectUpdate(
            action=self.action,
            name=given.name,
            type=_type(given),
            shared_as=given.shared_as or None,
            comment=given.comment,
            history=given.cdf_enabled if history is None else history == "ENABLED",
            partitions=None if given.partitions is None else tuple(_partition(each) for each in given.partitions),
            start_version=given.start_version,
        )


class UpdateShare(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a share and its objects, made in one step. A field that is absent or null stays unchanged."""

    comment: Text | None = None
    display_name: Text | None = None
    properties: Annotated[Properties | None, Meta(description="Replaces all properties.")] = None
    owner: Name | None = None
    new_name: Name | None = None
    updates: list[SharedDataObjectUpdate] | None = None

    def revision(self) -> Revision:
        require_text(self.display_name, "display_name", MAX_DISPLAY_NAME)
        return Revision(
            comment=require_text(self.comment, "comment", MAX_COMMENT),
            owner=self.owner,
            properties=None if self.properties is None else require_properties(self.properties, "properties"),
            details={} if self.display_name is None else {DISPLAY_NAME: self.display_name},
            new_name=None if self.new_name is None else require_share_name(self.new_name, "new_name"),
        )


class SharedDataObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a share."""

    name: str
    data_object_type: Literal["TABLE", "SCHEMA"]
    shared_as: str
    comment: str | None
    added_at: Millis
    added_by: str
    history_data_sharing_status: HistoryStatus
    cdf_enabled: bool
    partitions: list[PartitionInfo]
    start_version: Version | None
    status: Annotated[
        Literal["ACTIVE", "PERMISSION_DENIED"],
        Meta(description="PERMISSION_DENIED: recipients cannot read it, because it was dropped."),
    ]


class ShareInfo(Stamped, frozen=True, kw_only=True):
    """A share."""

    name: str
    id: str
    comment: str | None
    display_name: str | None
    properties: Properties
    objects: Annotated[
        list[SharedDataObject] | None, Meta(description="Only if include_shared_data is true, and after an update.")
    ]


class ListSharesResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A page of shares. Without a token it is the last page."""

    shares: list[ShareInfo]
    next_page_token: str | None


def share_info(share: Securable, objects: list[SharedDataObject] | None = None) -> ShareInfo:
    return ShareInfo(
        name=share.name,
        id=share.id,
        comment=share.doc.comment,
        display_name=share.doc.details.get(DISPLAY_NAME),
        properties=share.doc.properties,
        objects=objects,
        **stamps(share),
    )


def shared_data_object(found: SharedObject) -> SharedDataObject:
    details = found.details
    return SharedDataObject(
        name=found.name,
        data_object_type=details.type,
        shared_as=found.shared_as,
        comment=found.shared.doc.comment,
        added_at=found.shared.created_at_ms,
        added_by=found.shared.created_by,
        history_data_sharing_status="ENABLED" if details.history else "DISABLED",
        cdf_enabled=details.history,
        partitions=[PartitionInfo(values=[_value_info(each) for each in values]) for values in details.partitions],
        start_version=details.start_version,
        status="ACTIVE" if found.is_active else "PERMISSION_DENIED",
    )


def _value_info(value: PartitionValue) -> PartitionValueInfo:
    return PartitionValueInfo(
        name=value.name, op=value.op, value=value.value, recipient_property_key=value.property_key
    )


def _partition(info: PartitionInfo) -> Partition:
    return tuple(
        PartitionValue(
            name=each.name, op=each.op or "EQUAL", value=each.value, property_key=each.recipient_property_key
        )
        for each in info.values
    )


def _type(given: DataObject) -> Literal["TABLE", "SCHEMA"]:
    match (given.data_object_type or "").upper():
        case "TABLE":
            return "TABLE"
        case "SCHEMA":
            return "SCHEMA"
        case "":
            return "SCHEMA" if given.name.count(".") == 1 else "TABLE"
        case "VIEW" | "MATERIALIZED_VIEW" | "STREAMING_TABLE" | "VOLUME" | "MODEL" | "FUNCTION" | "NOTEBOOK_FILE":
            raise Unsupported(
                f"objects of the type {given.data_object_type} cannot be shared; share a TABLE or a SCHEMA",
                field="data_object_type",
            )
    raise InvalidInput(
        f"data_object_type {given.data_object_type!r} does not exist; use TABLE or SCHEMA", field="data_object_type"
    )
