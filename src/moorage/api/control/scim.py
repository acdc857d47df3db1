"""The shapes of SCIM 2 (RFC 7643, 7644) that this API uses. Unknown attributes are ignored."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from moorage.core.errors import InvalidInput
from moorage.core.securables import Securable
from moorage.usecases.identity.principals import Edit

LIST_SCHEMA = ("urn:ietf:params:scim:api:messages:2.0:ListResponse",)
PATCH_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
EXAMPLE_USER_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e01"
EXAMPLE_SERVICE_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e02"
EXAMPLE_GROUP_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e03"
EXAMPLE_TOKEN_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e04"  # noqa: S105 - an id
EXAMPLE_TIME = "2026-11-14T08:00:00.000+00:00"

Name = Annotated[str, Meta(min_length=1, max_length=255)]

_FILTER = re.compile(r'\s*(userName|displayName|applicationId)\s+eq\s+"((?:[^"\\]|\\.)*)"\s*', re.IGNORECASE)
_MEMBER = re.compile(r'members\[\s*value\s+eq\s+"([0-9a-f-]+)"\s*\]', re.IGNORECASE)


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

    filter: Annotated[str | None, Meta(description='`userName eq "…"` or `displayName eq "…"`.')] = None
    start_index: Annotated[int, Meta(ge=1, le=2**31 - 1, description="The number of the first resource, from 1.")] = (
        field(default=1, name="startIndex")
    )
    count: Annotated[int, Meta(ge=0, le=2**31 - 1, description="The maximum number of resources.")] = 1000

    @property
    def name(self) -> str | None:
        """The name that the filter asks for."""
        if self.filter is None:
            return None
        found = _FILTER.fullmatch(self.filter)
        if found is None:
            raise InvalidInput('the filter is not supported; use userName eq "…" or displayName eq "…"', field="filter")
        return found[2].replace('\\"', '"').replace("\\\\", "\\")


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


def meta_of(securable: Securable, resource_type: str) -> ScimMeta:
    return ScimMeta(
        resource_type=resource_type,
        created=_time(securable.created_at_ms),
        last_modified=_time(securable.updated_at_ms),
    )


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def edit_of(patch: Patch) -> Edit:
    """The change of a user or service principal that a patch describes."""
    values: dict[str, Any] = {}
    for operation in patch.operations:
        if operation.op.lower() not in ("add", "replace"):
            raise InvalidInput("only `add` and `replace` are supported here", field="Operations")
        if operation.path is not None:
            values[operation.path] = operation.value
        elif isinstance(operation.value, dict):
            values |= operation.value
    try:
        return Edit(
            active=_boolean(values["active"]) if "active" in values else None,
            display_name=_text(values["displayName"]) if "displayName" in values else msgspec.UNSET,
            external_id=_text(values["externalId"]) if "externalId" in values else msgspec.UNSET,
        )
    except TypeError as error:
        raise InvalidInput(str(error), field="Operations") from None


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
    """What a patch does to the members of a group."""
    add: list[str] = []
    remove: list[str] = []
    replace = False
    for operation in patch.operations:
        op, path = operation.op.lower(), operation.path or "members"
        single = _MEMBER.fullmatch(path)
        value = operation.value.get("members") if isinstance(operation.value, dict) else operation.value
        ids = [single[1]] if single is not None else _ids(value)
        if path.lower() != "members" and single is None:
            raise InvalidInput(f"only the members of a group can be changed, not {path!r}", field="Operations")
        if op == "remove":
            remove += ids
        elif op in ("add", "replace"):
            add += ids
            replace = replace or op == "replace"
        else:
            raise InvalidInput(f"{operation.op!r} is not one of add, remove and replace", field="Operations")
    return Members(tuple(add), tuple(remove), replace)


def _ids(value: Any) -> list[str]:
    try:
        return [each.value for each in msgspec.convert(value or [], list[Reference])]
    except msgspec.ValidationError:
        raise InvalidInput('members are given as [{"value": id}]', field="Operations") from None
