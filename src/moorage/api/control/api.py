"""The path of the control API, and its errors in the form of SCIM."""

from __future__ import annotations

import msgspec

from moorage.core import errors as core
from moorage.core.errors import MoorageError
from moorage.http import Api, Wire

SINCE = "2.1.0-moorage.1"

_SCIM_TYPES: dict[type[MoorageError], str] = {core.NameTaken: "uniqueness", core.InvalidInput: "invalidValue"}


_ERROR_SCHEMA = ("urn:ietf:params:scim:api:messages:2.0:Error",)


class ScimError(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error response of every operation."""

    schemas: tuple[str, ...]
    status: str
    detail: str
    error_code: str
    scim_type: str | None = msgspec.field(default=None, name="scimType")


_encode = msgspec.json.Encoder().encode


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    kind = _SCIM_TYPES.get(type(error))
    return _encode(
        ScimError(
            schemas=_ERROR_SCHEMA,
            status=str(wire.status),
            detail=error.message,
            error_code=wire.name,
            scim_type=kind,
        )
    )


control = Api(
    "control",
    prefix="/api/1.0/unity-control",
    file="control.yaml",
    title="Unity Control API",
    description="Users, service principals, groups and tokens. The shapes are those of SCIM 2.",
    tags={
        "users": "People who use the catalog.",
        "service principals": "Programs that use the catalog.",
        "groups": "Sets of principals, which are granted privileges together. Groups may contain groups.",
        "tokens": "Tokens by which principals authenticate.",
    },
    parameters={"id": "The id of the resource."},
    render_error=render_error,
    error_answer=ScimError,
    defaults={"stage": "public_preview", "since": SINCE},
)
