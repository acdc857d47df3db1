"""Generation of the API contract from the routes: one OpenAPI 3.1 document per file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from moorage.core import errors as core
from moorage.http.calls import NoBody, NoQuery
from moorage.http.declarations import SPEC_RELEASE
from moorage.http.errors import Wire, wire_of
from moorage.http.routes import Api, Route
from moorage.http.schemas import Labels, Schemas

Document = dict[str, Any]

_PREVIEW = "Endpoints or fields in preview; subject to change."

_COMPATIBILITY = (
    "Within a path version the API only grows: responses may gain fields, and enums may gain values. "
    "Clients must ignore fields and values that they do not know."
)

_REQUEST_ID = {
    "X-Request-Id": {
        "description": "The id of the request: the client's own if it sent a valid one, otherwise a new one.",
        "schema": {"type": "string"},
    }
}
_REQUEST_ID_REF = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes the request safe to retry: a retry with the same key returns the first response.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "example": "3f1c8a52-7d0b-4b7e-9d6d-0a5c1f2e4b11",
}


def documents(apis: Sequence[Api]) -> dict[str, Document]:
    """All documents by file name. Each route of each API is in exactly one of them."""
    seen: dict[tuple[str, str], str] = {}
    for api in apis:
        for route in api.routes:
            # Names must be unique within a file only: two protocols may both have a getTable.
            if seen.setdefault((route.file, route.operation), route.pattern.path) != route.pattern.path:
                raise TypeError(f"two operations in {route.file} are named {route.operation}")
    files = dict.fromkeys(route.file for api in apis for route in api.routes)
    return {file: _Writer(file, apis).document() for file in files}


class _Writer:
    """Generates one document."""

    def __init__(self, file: str, apis: Sequence[Api]) -> None:
        self._apis = [api for api in apis if any(route.file == file for route in api.routes)]
        self._file = file
        self._schemas = Schemas()
        self._responses: dict[str, Document] = {}

    def document(self) -> Document:
        owner = next((api for api in self._apis if api.file == self._file), None)
        if owner is None:
            raise TypeError(f"no API has {self._file} as its main file, so it has no title")
        paths: dict[str, Document] = {}
        for api in self._apis:
            for route in api.routes:
                if route.file == self._file:
                    item = paths.setdefault(route.pattern.path.replace(":rest}", "}"), {})
                    item[route.verb.lower()] = self._operation(api, route)
        return {
            "openapi": "3.1.0",
            "info": {
                "title": owner.title,
                "version": SPEC_RELEASE,
                "description": f"{owner.description}\n\n{_COMPATIBILITY}",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "servers": [{"url": "/", "description": "The server that serves this document."}],
            "tags": self._tags(),
            "paths": paths,
            "components": {
                "schemas": self._schemas.components(),
                "responses": dict(sorted(self._responses.items())),
                "headers": _REQUEST_ID,
                "securitySchemes": self._security_schemes(),
            },
        }

    def _security_schemes(self) -> Document:
        cookies = [api.cookie for api in self._apis if api.cookie is not None]
        if len(cookies) < len(self._apis):
            return {"bearer": {"type": "http", "scheme": "bearer", "description": "An access token for this server."}}
        about = "The session of a browser."
        return {"session": {"type": "apiKey", "in": "cookie", "name": cookies[0], "description": about}}

    def _tags(self) -> list[Document]:
        used = {tag for api in self._apis for route in api.routes if route.file == self._file for tag in route.tags}
        described = {tag: text for api in self._apis for tag, text in api.tags.items() if tag in used}
        described["preview"] = _PREVIEW
        return [{"name": name, "description": text} for name, text in described.items()]

    def _operation(self, api: Api, route: Route) -> Document:
        labels = Labels(route.stage, route.since)
        preview = [] if route.stage == "ga" else ["preview"]
        operation: Document = {
            "operationId": route.operation,
            "summary": route.summary,
            "description": route.description,
            "tags": [*route.tags, *preview],
            "x-uc-stage": route.stage,
            "x-uc-since": route.since,
        }
        if (deprecation := route.deprecated) is not None:
            operation["deprecated"] = True
            operation["x-uc-deprecated"] = True
            operation["x-uc-replaced-by"] = deprecation.replaced_by
            operation["x-sunset"] = deprecation.sunset.isoformat()
            operation["description"] += f"\n\nDeprecated, to be removed on {deprecation.sunset}: {deprecation.note}"
        operation["security"] = [] if route.public else [{"bearer" if api.cookie is None else "session": []}]
        if parameters := self._parameters(api, route, labels):
            operation["parameters"] = parameters
        if route.body is not NoBody:
            operation["requestBody"] = {"required": route.body_required, "content": self._body_content(route, labels)}
        operation["responses"] = {
            str(route.status): self._success(route, labels),
            **{
                str(status): {"description": text, "headers": dict(_REQUEST_ID_REF)}
                for status, text in route.also.items()
            },
            **self._error_responses(api, route),
        }
        return operation

    def _body_content(self, route: Route, labels: Labels) -> Document:
        if route.body is bytes:
            raw_bytes = {"type": "string", "format": "binary", "description": "The example is in base64."}
            return {route.takes: {"schema": raw_bytes, "example": route.example.body}}
        return {route.takes: {"schema": self._schemas.of(route.body, labels), "example": route.example.body}}

    def _parameters(self, api: Api, route: Route, labels: Labels) -> list[Document]:
        found: list[Document] = [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": api.parameters[name],
                "schema": {"type": "string", "minLength": 1},
                "example": route.example.path[name],
            }
            for name in route.pattern.names
        ]
        if route.query is not NoQuery:
            found += self._query_parameters(route, labels)
        if route.keyed:
            found.append(dict(_KEY))
        for parameter in found:
            labels.add_to(parameter)
        return found

    def _query_parameters(self, route: Route, labels: Labels) -> list[Document]:
        fields, required = self._schemas.fields_of(route.query, labels)
        found = []
        for name, schema in fields.items():
            parameter: Document = {"name": name, "in": "query", "required": name in required}
            for key in ("description", "x-uc-stage", "x-uc-since"):
                if key in schema:
                    parameter[key] = schema.pop(key)
            parameter["schema"] = schema
            if name in route.example.query:
                parameter["example"] = route.example.query[name]
            found.append(parameter)
        return found

    def _success(self, route: Route, labels: Labels) -> Document:
        response: Document = {"description": HTTPStatus(route.status).phrase, "headers": dict(_REQUEST_ID_REF)}
        if route.deprecated is not None:
            for name, text in (("Deprecation", "The date of deprecation."), ("Sunset", "The date of removal.")):
                response["headers"][name] = {"description": text, "schema": {"type": "string"}}
        content: Document = {}
        for content_type in route.content_types:
            if content_type != "application/json":
                content[content_type] = {"schema": {"type": "string"}}
                if isinstance(route.example.answer, str):
                    content[content_type]["example"] = route.example.answer
            elif route.answer is not None:
                content[content_type] = {
                    "schema": self._schemas.of(route.answer, labels),
                    "example": route.example.answer,
                }
        if content:
            response["content"] = content
        return response

    def _error_responses(self, api: Api, route: Route) -> dict[str, Document]:
        """One error response per status. Operations with the same errors share it."""
        by_status: dict[int, dict[str, type[core.MoorageError]]] = {}
        for error in _errors_of(route):
            wire = wire_of(api.errors, error)
            by_status.setdefault(wire.status, {})[wire.name] = error
        for status, error in route.other_statuses.items():
            by_status.setdefault(status, {})[wire_of(api.errors, error).name] = error
        by_status.setdefault(500, {})[api.unexpected] = core.Unavailable
        return {str(status): self._error_response(api, status, named) for status, named in sorted(by_status.items())}

    def _error_response(self, api: Api, status: int, named: Mapping[str, type[core.MoorageError]]) -> Document:
        names = sorted(named)
        key = f"{api.name}_{'_or_'.join(names)}"
        if key not in self._responses:
            most_stable = Labels("ga", min(route.since for route in api.routes))
            self._responses[key] = {
                "description": ", ".join(names),
                "headers": dict(_REQUEST_ID_REF),
                "content": {
                    "application/json": {
                        "schema": self._schemas.of(api.error_answer, most_stable),
                        "examples": {name: {"value": _example(api, Wire(status, name), named[name])} for name in names},
                    }
                },
            }
        return {"$ref": f"#/components/responses/{key}"}


def _errors_of(route: Route) -> list[type[core.MoorageError]]:
    """The errors that the handler declares, and those that the app raises around it."""
    errors = [*route.errors, core.Unavailable]
    if route.pattern.names or route.query is not NoQuery or route.body is not NoBody or route.keyed:
        errors.append(core.InvalidInput)
    if route.body is not NoBody:
        errors += [core.TooLarge, core.TimedOut]
    if not route.public:
        errors += [core.Unauthenticated, core.Forbidden]
    if route.mutation:
        errors += [core.OutcomeUnknown, core.Busy]
    if route.keyed:
        errors.append(core.KeyReused)
    return errors


def _example(api: Api, wire: Wire, kind: type[core.MoorageError]) -> Any:
    from_name = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).capitalize() + "."
    message = (kind.__doc__ or from_name).splitlines()[0]
    return msgspec.json.decode(api.render_error(wire, kind(message), "5b0c7d3e9a41-2f"))
