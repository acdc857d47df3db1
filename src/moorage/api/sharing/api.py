"""The path of the sharing API, its error names, and how its callers authenticate."""

from __future__ import annotations

import msgspec

from moorage.core import errors as core
from moorage.core.errors import MoorageError
from moorage.http import Api
from moorage.http.answers import Header
from moorage.http.credentials import recipient_token
from moorage.http.errors import ErrorTable, Wire
from moorage.usecases.sharing.file_urls import PREFIX
from moorage.usecases.sharing.recipients import authenticate

NOT_FOUND = "RESOURCE_DOES_NOT_EXIST"
INVALID = "INVALID_PARAMETER_VALUE"
MALFORMED = "MALFORMED_REQUEST"
CODE = "error_code"
"""Key in the details of an error that has another name than its class."""

WIRE: ErrorTable = {
    core.InvalidInput: Wire(400, INVALID),
    core.DraftTooLarge: Wire(400, INVALID),
    core.TooLarge: Wire(413, MALFORMED),
    core.Unsupported: Wire(400, "UNSUPPORTED_OPERATION"),
    core.CatalogNotFound: Wire(404, NOT_FOUND),
    core.NamespaceNotFound: Wire(404, NOT_FOUND),
    core.TableNotFound: Wire(404, NOT_FOUND),
    core.ViewNotFound: Wire(404, NOT_FOUND),
    core.SecurableNotFound: Wire(404, NOT_FOUND),
    core.VersionNotFound: Wire(400, INVALID),
    core.JobNotFound: Wire(404, NOT_FOUND),
    core.PlanNotFound: Wire(404, NOT_FOUND),
    core.PlanTaskNotFound: Wire(404, NOT_FOUND),
    core.RouteNotFound: Wire(404, NOT_FOUND),
    core.MethodNotAllowed: Wire(405, "METHOD_NOT_ALLOWED"),
    core.NameTaken: Wire(409, "RESOURCE_CONFLICT"),
    core.PlaceTaken: Wire(409, "RESOURCE_CONFLICT"),
    core.NotEmpty: Wire(409, "RESOURCE_CONFLICT"),
    core.VersionTaken: Wire(409, "RESOURCE_CONFLICT"),
    core.RevisionMoved: Wire(409, "RESOURCE_CONFLICT"),
    core.RequirementFailed: Wire(409, "RESOURCE_CONFLICT"),
    core.AlreadyPurged: Wire(409, "RESOURCE_CONFLICT"),
    core.LeaseLost: Wire(409, "RESOURCE_CONFLICT"),
    core.JobEnded: Wire(409, "RESOURCE_CONFLICT"),
    core.KeyReused: Wire(422, INVALID),
    core.Unauthenticated: Wire(401, "UNAUTHENTICATED"),
    core.Forbidden: Wire(403, "PERMISSION_DENIED"),
    core.TooManyRequests: Wire(429, "REQUEST_LIMIT_EXCEEDED"),
    core.TimedOut: Wire(408, "REQUEST_TIMEOUT"),
    # Clients repeat a request after 429 and 5xx, and give up after every other status.
    core.Busy: Wire(429, "REQUEST_LIMIT_EXCEEDED"),
    core.Unavailable: Wire(503, "TEMPORARILY_UNAVAILABLE"),
    core.OutcomeUnknown: Wire(500, "INTERNAL_ERROR"),
    core.Damaged: Wire(500, "INTERNAL_ERROR"),
}


class SharingError(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The error response of every operation."""

    error_code: str
    message: str


_encode = msgspec.json.Encoder().encode

JSON: Header = (b"content-type", b"application/json; charset=utf-8")
NDJSON = "application/x-ndjson; charset=utf-8"


def render_error(wire: Wire, error: MoorageError, request_id: str) -> bytes:
    return _encode(SharingError(error_code=error.details.get(CODE, wire.name), message=error.message))


sharing = Api(
    "sharing",
    prefix=PREFIX,
    file="sharing.yaml",
    title="Delta Sharing API",
    description="The Delta Sharing protocol: recipients list their shares and read the tables in them.",
    tags={
        "shares": "What was shared with a recipient.",
        "shared tables": "The data of shared tables.",
        "shared files": "The files that the responses of this API name.",
    },
    parameters={
        "share": "The name of the share. Letter case does not matter.",
        "schema": "The name of the schema. Letter case does not matter.",
        "table": "The name of the table. Letter case does not matter.",
        "query_id": "The id of an asynchronous query.",
        "token": "The token in the URL of a file.",
    },
    errors=WIRE,
    unexpected="INTERNAL_ERROR",
    render_error=render_error,
    error_answer=SharingError,
    defaults={"stage": "public_preview", "since": "2.1.0-moorage.1"},
    credential=recipient_token,
    authenticate=authenticate,
)
