"""The shapes of SCIM 2 (RFC 7643, 7644) that this API uses. Unknown attributes are ignored."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from moorage.core.errors import InvalidInput
from moorage.core.securables import Securable
from moorage.usecases.identity.principals import Attribute, Edit, Selection

LIST_SCHEMA = ("urn:ietf:params:scim:api:messages:2.0:ListResponse",)
PATCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
EXAMPLE_USER_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e01"
EXAMPLE_SERVICE_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e02"
EXAMPLE_GROUP_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e03"
EXAMPLE_TOKEN_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e04"  # noqa: S105 - an id
EXAMPLE_TIME = "2026-11-14T08:00:00.000+00:00"

Name = Annotated[str, Meta(min_length=1, max_length=255)]

_FILTER = re.compile(r'\s*([\w:.]+)\s+eq\s+"((?:[^"\\]|\\.)*)"\s*', re.IGNORECASE)
_SCHEMA = re.compile(r"urn:[\w:.]+:(?=\w+$)", re.IGNORECASE)
_MEMBER = re.compile(r'members\[\s*value\s+eq\s+"([0-9a-f-]+)"\s*\]', re.IGNORECASE)

COMMON_ATTRIBUTES = {"externalid": Attribute.EXTERNAL_ID, "id": Attribute.ID}


class ScimMeta(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """When the resource was created and last changed."""

    resource_type: str
    created: str
    last_modified: str


class Reference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A reference to another principal."""

    value: str
    display: str | None = None


class Email(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An e-mail address."""

    value: Name
    primary: bool = False


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a list."""

    filter: Annotated[str | None, Meta(description='An attribute, `eq` and a text: `userName eq "…"`.')] = None
    start_index: Annotated[int, Meta(ge=1, le=2**31 - 1, description="The number of the first resource, from 1.")] = (
        field(default=1, name="startIndex")
    )
    count: Annotated[int, Meta(ge=0, le=2**31 - 1, description="The maximum number of resources.")] = 1000

    def selection(self, attributes: Mapping[str, Attribute]) -> Selection | None:
        """What the filter asks for. `attributes` are those that it may name, in lower case."""
        if self.filter is None:
            return None
        found = _FILTER.fullmatch(self.filter)
        attribute = attributes.get(attribute_of(found[1])) if found else None
        if found is None or attribute is None:
            named = ", ".join(attributes)
            raise InvalidInput(f"the filter is not supported; use `eq` and a text with one of {named}", field="filter")
        return Selection(attribute, found[2].replace('\\"', '"').replace("\\\\", "\\"))


class PatchOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a resource."""

    op: Annotated[str, Meta(description="`add`, `remove` or `replace`.")]
    path: str | None = None
    value: Any = None


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """Changes of a resource."""

    operations: list[PatchOperation] = field(name="Operations")
    schemas: list[str] = field(default_factory=lambda: [PATCH_SCHEMA])


class Members(msgspec.Struct, frozen=True):
    """What a patch does to the members of a group. `replace`: the members are exactly `add` afterwards."""

    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    replace: bool = False
    name: str | None = None
    """The name that the patch states for the group."""


def attribute_of(text: str) -> str:
    """An attribute in lower case and without its schema: SCIM ignores case, and accepts both forms."""
    return _SCHEMA.sub("", text.strip()).lower()


def meta_of(securable: Securable, resource_type: str) -> ScimMeta:
    return ScimMeta(
        resource_type=resource_type,
        created=_time(securable.created_at_ms),
        last_modified=_time(securable.updated_at_ms),
    )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def edit_of(patch: Patch, name: str) -> Edit:
    """The change of a user or service principal that a patch describes. `name`: the attribute that has the name."""
    values: dict[str, Any] = {}
    for operation in patch.operations:
        values |= _assigned(operation)
    try:
        stated = _text(values.pop(attribute_of(name), None))
        return Edit(
            name=stated,
            name_field=name,
            active=_boolean(values["active"]) if "active" in values else None,
            display_name=_text(values["displayname"]) if "displayname" in values else msgspec.UNSET,
            external_id=_text(values["externalid"]) if "externalid" in values else msgspec.UNSET,
        )
    except TypeError as error:
        raise InvalidInput(str(error), field="Operations") from None


def _assigned(operation: PatchOperation) -> dict[str, Any]:
    """The attributes that an operation sets. A removed one is null."""
    removes = _op(operation) == "remove"
    if operation.path is not None:
        return {attribute_of(operation.path): None if removes else operation.value}
    if removes:
        raise InvalidInput("`remove` needs a path", field="Operations")
    value = operation.value
    return {attribute_of(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def _op(operation: PatchOperation) -> str:
    op = operation.op.lower()
    if op not in ("add", "remove", "replace"):
        raise InvalidInput(f"{operation.op!r} is not one of add, remove and replace", field="Operations")
    return op


def _boolean(value: Any) -> bool:
    """Some identity providers send "True" as a text."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise TypeError("active must be true or false")
    return value


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("a name must be a text")
    return value


def members_of_patch(patch: Patch) -> Members:
    """What a patch does to the members of a group, one operation after the other."""
    add: dict[str, None] = {}
    remove: dict[str, None] = {}
    replace, name = False, None
    for operation in patch.operations:
        op = _op(operation)
        single = _MEMBER.fullmatch(operation.path or "")
        if single is not None and op == "replace":  # of that member only: it must not remove the others
            raise InvalidInput("a member has no attributes to replace; add or remove it", field="Operations")
        values = {"members": [{"value": single[1]}]} if single is not None else _assigned(operation)
        name = values.get("displayname", name)
        if "members" not in values:
            if operation.path is not None and "displayname" not in values:
                raise InvalidInput(
                    f"only the members of a group can be changed, not {operation.path!r}", field="Operations"
                )
            continue  # an operation on other attributes
        ids = dict.fromkeys(_ids(operation.value if op == "remove" and single is None else values["members"]))
        if op == "replace" or (op == "remove" and single is None and operation.value is None):
            add, remove, replace = {}, {}, True
        if op == "remove":
            remove |= ids
            add = {id: None for id in add if id not in ids}
        else:
            add |= ids
            remove = {id: None for id in remove if id not in ids}
    if name is not None and not isinstance(name, str):
        raise InvalidInput("displayName must be a text", field="Operations")
    return Members(tuple(add), tuple(remove), replace, name)


def _ids(value: Any) -> list[str]:
    try:
        return [each.value for each in msgspec.convert(value or [], list[Reference])]
    except msgspec.ValidationError:
        raise InvalidInput('members are given as [{"value": id}]', field="Operations") from None
