"""Shares: the names that recipients see, and which part of a table is shared. Pure.

In a share, a schema name stands either for single tables or for one whole schema of the catalog. If it could stand
for both, a table that was renamed would escape the partition filter that it was shared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from moorage.core.errors import Forbidden, InvalidInput
from moorage.core.ids import SecurableId
from moorage.core.names import is_addressable_in_unity, name_key, require_name
from moorage.core.securables import Doc, Securable, TableDoc

ObjectType: TypeAlias = Literal["TABLE", "SCHEMA"]
PartitionOp: TypeAlias = Literal["EQUAL", "LIKE"]

WHOLE_SCHEMA: Final = "*"
MAX_DISPLAY_NAME: Final = 255
_MAX_PARTITIONS: Final = 100
DISPLAY_NAME: Final = "display_name"
"""Key in the details of a share."""


class PartitionValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition on one partition column. Without a value, EQUAL means that the column is null.

    With a `property_key`, the value is that property of the recipient.
    """

    name: str
    op: PartitionOp = "EQUAL"
    value: str | None = None
    property_key: str | None = None


Partition: TypeAlias = tuple[PartitionValue, ...]
"""Conditions that must all hold."""


class ObjectDetails(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The details in the record of a shared object."""

    target: SecurableId
    """The id of the table or schema, so that it stays shared when it is renamed."""
    type: ObjectType = "TABLE"
    name: str
    """The full name of the target when it was added."""
    history: bool = False
    partitions: tuple[Partition, ...] = ()
    start_version: int | None = None


def details_of(shared: Securable) -> ObjectDetails:
    return msgspec.convert(shared.doc.details, ObjectDetails)


def to_doc(details: ObjectDetails, comment: str | None = None) -> Doc:
    return Doc(comment=comment, details=msgspec.to_builtins(details))


def require_share_name(name: str, field: str = "name") -> str:
    """Return the name of a share or recipient, or raise InvalidInput if clients could not address it."""
    return _addressable(name, field, "a name")


def parse_shared_as(text: str, object_type: ObjectType, field: str = "shared_as") -> str:
    """The name of a shared object in the ledger, from the name that its provider chose."""
    parts = text.split(".")
    form = "schema.table" if object_type == "TABLE" else "schema"
    if len(parts) != (2 if object_type == "TABLE" else 1) or not all(parts):
        raise InvalidInput(f"{field} {text!r} does not have the form {form}", field=field)
    for part in parts:
        _addressable(part, field, "a shared_as")
    return text if object_type == "TABLE" else f"{text}.{WHOLE_SCHEMA}"


def _addressable(name: str, field: str, remedy: str) -> str:
    if not is_addressable_in_unity(require_name(name, field)):
        raise InvalidInput(
            f"{field} {name!r} contains a dot, a space or a slash, which recipients cannot address; "
            f"choose {remedy} without them",
            field=field,
        )
    return name


def schema_of(name: str) -> str:
    """The schema that recipients see, from the name of a shared object."""
    return name.partition(".")[0]


def table_of(name: str) -> str:
    return name.partition(".")[2]


def first_key_of(schema: str) -> str:
    """All keys of the objects in a schema are greater than this."""
    return f"{name_key(schema)}."


def last_key_of(schema: str) -> str:
    """All keys of the objects in a schema are less than this: a slash follows the dot, and no name contains one."""
    return f"{name_key(schema)}/"


def require_partitions(
    partitions: Sequence[Partition], table: TableDoc | None, field: str = "partitions"
) -> tuple[Partition, ...]:
    """Return a partition filter that can be applied to the table, or raise InvalidInput."""
    if len(partitions) > _MAX_PARTITIONS:
        raise InvalidInput(f"{field} has {len(partitions)} entries; at most {_MAX_PARTITIONS} are allowed", field=field)
    columns = () if table is None else table.columns
    known = {column.name.lower() for column in columns if column.partition_index is not None}
    for partition in partitions:
        if not partition:
            raise InvalidInput(f"{field}: a partition without values would share all rows; remove it", field=field)
        for condition in partition:
            if columns and condition.name.lower() not in known:
                have = f"the partition columns are {', '.join(sorted(known))}" if known else "the table has none"
                raise InvalidInput(f"{field}: {condition.name!r} is not a partition column; {have}", field=field)
            if condition.value is not None and condition.property_key is not None:
                raise InvalidInput(f"{field}: give either value or recipient_property_key, not both", field=field)
            if condition.op == "LIKE" and condition.value is None and condition.property_key is None:
                raise InvalidInput(f"{field}: LIKE needs a value", field=field)
    return tuple(partitions)


def resolved(partitions: Sequence[Partition], properties: Mapping[str, str]) -> tuple[Partition, ...]:
    """The filter for one recipient. Forbidden if no alternative remains: without one, all rows would be shared."""
    found = tuple(
        tuple(_resolved(condition, properties) for condition in partition)
        for partition in partitions
        if all(each.property_key is None or each.property_key in properties for each in partition)
    )
    if partitions and not found:
        missing = sorted({each.property_key for partition in partitions for each in partition if each.property_key})
        raise Forbidden(
            f"this table is filtered by the recipient's properties {', '.join(missing)}, which the recipient does not "
            "have; ask the provider of the share to set them"
        )
    return found


def _resolved(condition: PartitionValue, properties: Mapping[str, str]) -> PartitionValue:
    key = condition.property_key
    return condition if key is None else replace(condition, value=properties[key], property_key=None)
