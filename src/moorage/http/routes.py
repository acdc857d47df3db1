"""The typed registry in which every API is written.

A route declares what the contract promises about it: its stage, since when, what goes in and out,
how it may fail, and an example of both. Forgetting one is a TypeError at import, not a gap in the
documentation. Handlers see calls and answers, never a framework.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict, TypeVar, Unpack

import msgspec
from msgspec import inspect as shapes

from moorage.core.errors import MoorageError
from moorage.http.answers import Answer, Header
from moorage.http.calls import NO_BODY, NO_QUERY, Call, NoBody, NoQuery
from moorage.http.credentials import ReadCredential, bearer
from moorage.http.declarations import (
    Deprecation,
    Example,
    Stage,
    check_example,
    check_handler,
    check_labels,
    require_bounded_integers,
    shape_of,
)
from moorage.http.errors import UNEXPECTED, WIRE, ErrorAnswer, ErrorTable, RenderError, render_error, wire_of
from moorage.http.inputs import parse_body, parse_query
from moorage.http.router import Pattern

Handler = Callable[[Call[Any, Any], Any], Awaitable[Answer]]
H = TypeVar("H", bound=Handler)
Verb = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

JSON_ONLY = ("application/json",)
FORM = "application/x-www-form-urlencoded"


class Route:
    """One operation of one API.

    `mutation` says that it changes something, so that a fault leaves its outcome unknown; `keyed`, that
    it honours idempotency keys (all mutations do unless they say otherwise); `patient`, that it may wait
    for longer than a request may take; `also` names other good answers, which have no body. A body of
    `bytes` is handed over as it came, and `takes` says of which type; its example is in base64. A body that
    takes a FORM is read as one.
    """

    def __init__(
        self,
        api: Api,
        verb: Verb,
        path: str,
        handler: Handler,
        *,
        operation: str,
        summary: str,
        stage: Stage,
        since: str,
        example: Example,
        body: type[Any] = NoBody,
        body_required: bool = True,
        takes: str = "application/json",
        query: type[Any] = NoQuery,
        answer: Any = None,
        status: int = 200,
        content_types: Sequence[str] = JSON_ONLY,
        errors: Sequence[type[MoorageError]] = (),
        tags: Sequence[str] = (),
        file: str | None = None,
        also: Mapping[int, str] | None = None,
        mutation: bool | None = None,
        keyed: bool | None = None,
        public: bool = False,
        patient: bool = False,
        deprecated: Deprecation | None = None,
    ) -> None:
        self.api = api.name
        self.credential = api.credential
        self.verb = verb
        self.patterns = [Pattern(prefix + path) for prefix in api.prefixes]
        self.pattern = self.patterns[0]
        self.handler = handler
        self.operation = operation
        self.summary = summary
        self.description = inspect.getdoc(handler) or summary
        self.stage = stage
        self.since = since
        self.example = example
        self.body = body
        self.body_required = body_required
        self.takes = takes
        self.query = query
        self.answer = answer
        self.status = status
        self.content_types = tuple(content_types)
        self.errors = tuple(errors)
        self.tags = tuple(tags) or tuple(api.tags)[:1]
        self.file = file or api.file
        self.mutation = verb not in ("GET", "HEAD") if mutation is None else mutation
        self.keyed = self.mutation if keyed is None else keyed
        self.also = also or {}
        self.public = public
        self.patient = patient
        self.deprecated = deprecated
        self.headers: tuple[Header, ...] = deprecated.headers() if deprecated else ()
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(body)
        self._repeatable = _repeatable(query)
        self._check(api)

    def _check(self, api: Api) -> None:
        check_labels(self.operation, self.stage, self.since)
        check_handler(self.operation, self.handler, Call, self.body, self.query)
        for kind in (self.body, self.query):
            require_bounded_integers(self.operation, kind)
        if set(self.example.path) != set(self.pattern.names):
            raise TypeError(f"{self.operation}: the example must give {self.pattern.names} and nothing else")
        check_example(self.operation, "query", dict(self.example.query), self.query, strict=False)
        if self.body is not NoBody:
            check_example(self.operation, "body", self.example.body, self.body)
        if self.answer is not None:
            check_example(self.operation, "answer", self.example.answer, self.answer)
        for name in self.pattern.names:
            if name not in api.parameters:
                raise TypeError(f"{self.operation}: API {api.name} does not describe the parameter {name!r}")
        for tag in self.tags:
            if tag not in api.tags:
                raise TypeError(f"{self.operation}: API {api.name} does not describe the tag {tag!r}")
        for error in self.errors:
            wire_of(api.errors, error)

    def parse_query(self, raw: bytes) -> Any:
        if self.query is NoQuery:
            return NO_QUERY
        return parse_query(self.query, self._repeatable, raw)

    def parse_body(self, raw: bytes) -> Any:
        if self.body is NoBody:
            return NO_BODY
        if self.body is bytes:
            return raw
        if self.takes == FORM:
            return parse_query(self.body, _repeatable(self.body), raw)
        if not raw and not self.body_required:
            raw = b"{}"
        return parse_body(self._decoder, raw)


def _repeatable(query: type[Any]) -> dict[str, bool]:
    """Which parameters may be given more than once: those declared as lists."""
    shape = shape_of(query)
    if not isinstance(shape, shapes.StructType):
        raise TypeError(f"a query is a struct, not {query}")
    many = (shapes.ListType, shapes.VarTupleType, shapes.SetType, shapes.FrozenSetType)
    return {each.encode_name: isinstance(_bare(each.type), many) for each in shape.fields}


def _bare(shape: shapes.Type) -> shapes.Type:
    return _bare(shape.type) if isinstance(shape, shapes.Metadata) else shape


class Defaults(TypedDict, total=False):
    """What routes have in common, unless they say otherwise; see `Route`."""

    stage: Stage
    since: str
    query: type[Any]
    tags: Sequence[str]
    file: str


class Declaration(Defaults):
    """The keywords of `get`, `post` and the others; see `Route`. Stage and since are said here or by the API."""

    operation: str
    summary: str
    example: Example
    body: NotRequired[type[Any]]
    body_required: NotRequired[bool]
    takes: NotRequired[str]
    answer: NotRequired[Any]
    status: NotRequired[int]
    content_types: NotRequired[Sequence[str]]
    errors: NotRequired[Sequence[type[MoorageError]]]
    also: NotRequired[Mapping[int, str]]
    mutation: NotRequired[bool]
    keyed: NotRequired[bool]
    public: NotRequired[bool]
    patient: NotRequired[bool]
    deprecated: NotRequired[Deprecation]


class Section:
    """Where routes are declared that have something in common: their tags, say."""

    def __init__(self, api: Api, defaults: Defaults) -> None:
        self._api = api
        self._defaults = defaults

    def section(self, **differing: Unpack[Defaults]) -> Section:
        """Routes with these in common, and whatever the others here have."""
        return Section(self._api, {**self._defaults, **differing})

    def get(self, path: str, **said: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("GET", path, said)

    def head(self, path: str, **said: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("HEAD", path, said)

    def post(self, path: str, **said: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("POST", path, said)

    def put(self, path: str, **said: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("PUT", path, said)

    def patch(self, path: str, **said: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("PATCH", path, said)

    def delete(self, path: str, **said: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("DELETE", path, said)

    def _declare(self, verb: Verb, path: str, said: Declaration) -> Callable[[H], H]:
        def declare(handler: H) -> H:
            everything: Any = {**self._defaults, **said}
            self._api.routes.append(Route(self._api, verb, path, handler, **everything))
            return handler

        return declare


class Api(Section):
    """A wire protocol: where it is mounted, how it names errors, and its routes."""

    def __init__(
        self,
        name: str,
        *,
        prefix: str,
        file: str,
        title: str,
        description: str,
        tags: Mapping[str, str],
        errors: ErrorTable = WIRE,
        unexpected: str = UNEXPECTED,
        parameters: Mapping[str, str] | None = None,
        render_error: RenderError = render_error,
        error_answer: type[msgspec.Struct] = ErrorAnswer,
        defaults: Defaults | None = None,
        also_at: Sequence[str] = (),
        credential: ReadCredential = bearer,
    ) -> None:
        super().__init__(self, defaults or {})
        self.name = name
        self.prefix = prefix
        self.prefixes = (prefix, *also_at)
        self.file = file
        self.title = title
        self.description = description
        self.errors = errors
        self.unexpected = unexpected
        self.tags = tags
        self.parameters = parameters or {}
        self.render_error = render_error
        self.error_answer = error_answer
        self.credential = credential
        self.routes: list[Route] = []
