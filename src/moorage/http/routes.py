"""The typed registry of routes that every API is declared in.

A route declares what the contract states about it: its stage, the release it appeared in, its request and
response types, its errors, and an example. A missing part is a TypeError at import, not a gap in the
documentation. Handlers receive calls and return answers; they depend on no framework.
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
from moorage.http.credentials import Authenticate, ReadCredential, bearer
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
from moorage.http.errors import UNEXPECTED, WIRE, ErrorAnswer, ErrorTable, RenderError, Wire, render_error, wire_of
from moorage.http.inputs import parse_body, parse_query
from moorage.http.router import Pattern

Handler = Callable[[Call[Any, Any], Any], Awaitable[Answer]]
H = TypeVar("H", bound=Handler)
ErrorPage = Callable[[Wire, MoorageError, "Route | None", str], Answer]
"""Makes the page that shows an error in a browser, from the error, the route and the id of the request."""
Verb = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

JSON_ONLY = ("application/json",)
FORM = "application/x-www-form-urlencoded"


class Route:
    """One operation of one API.

    - `mutation`: it changes something, so after an internal error its outcome is unknown.
    - `keyed`: it honours idempotency keys. The default is the value of `mutation`.
    - `patient`: it may take longer than the request timeout, as long polls and streams do.
    - `also`: other success statuses with their descriptions. These responses have no body.
    - `other_statuses`: errors that the handler answers itself, with another status than the API's table has.
    - `takes`: the content type of the body. A FORM is parsed as a form. A body of `bytes` is passed on unparsed, and
      its example is in base64.
    - `decode`: parses the body instead of the strict decoder, for clients that send it in other forms.
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
        decode: Callable[[bytes], Any] | None = None,
        query: type[Any] = NoQuery,
        answer: Any = None,
        status: int = 200,
        content_types: Sequence[str] = JSON_ONLY,
        errors: Sequence[type[MoorageError]] = (),
        tags: Sequence[str] = (),
        file: str | None = None,
        also: Mapping[int, str] | None = None,
        other_statuses: Mapping[int, type[MoorageError]] | None = None,
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
        self.decode = decode
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
        self.other_statuses = other_statuses or {}
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
            raise TypeError(f"{self.operation}: the path of the example must have exactly {self.pattern.names}")
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
        if self.decode is not None:
            return self.decode(raw)
        if self.takes == FORM:
            return parse_query(self.body, _repeatable(self.body), raw)
        if not raw and not self.body_required:
            raw = b"{}"
        return parse_body(self._decoder, raw)


def _repeatable(query: type[Any]) -> dict[str, bool]:
    """For each parameter, whether it may be repeated. Parameters declared as lists may."""
    shape = shape_of(query)
    if not isinstance(shape, shapes.StructType):
        raise TypeError(f"a query must be a struct, not {query}")
    many = (shapes.ListType, shapes.VarTupleType, shapes.SetType, shapes.FrozenSetType)
    return {each.encode_name: isinstance(_without_metadata(each.type), many) for each in shape.fields}


def _without_metadata(shape: shapes.Type) -> shapes.Type:
    return _without_metadata(shape.type) if isinstance(shape, shapes.Metadata) else shape


class Defaults(TypedDict, total=False):
    """Values shared by several routes, each of which may override them; see `Route`."""

    stage: Stage
    since: str
    query: type[Any]
    tags: Sequence[str]
    file: str


class Declaration(Defaults):
    """The keywords of `get`, `post` and so on; see `Route`. `stage` and `since` may come from the API's defaults."""

    operation: str
    summary: str
    example: Example
    body: NotRequired[type[Any]]
    body_required: NotRequired[bool]
    takes: NotRequired[str]
    decode: NotRequired[Callable[[bytes], Any]]
    answer: NotRequired[Any]
    status: NotRequired[int]
    content_types: NotRequired[Sequence[str]]
    errors: NotRequired[Sequence[type[MoorageError]]]
    also: NotRequired[Mapping[int, str]]
    other_statuses: NotRequired[Mapping[int, type[MoorageError]]]
    mutation: NotRequired[bool]
    keyed: NotRequired[bool]
    public: NotRequired[bool]
    patient: NotRequired[bool]
    deprecated: NotRequired[Deprecation]


class Section:
    """Declares routes that share some values, for example their tags."""

    def __init__(self, api: Api, defaults: Defaults) -> None:
        self._api = api
        self._defaults = defaults

    def section(self, **overrides: Unpack[Defaults]) -> Section:
        """A section with these defaults in addition to those of this one."""
        return Section(self._api, {**self._defaults, **overrides})

    def get(self, path: str, **declaration: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("GET", path, declaration)

    def head(self, path: str, **declaration: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("HEAD", path, declaration)

    def post(self, path: str, **declaration: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("POST", path, declaration)

    def put(self, path: str, **declaration: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("PUT", path, declaration)

    def patch(self, path: str, **declaration: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("PATCH", path, declaration)

    def delete(self, path: str, **declaration: Unpack[Declaration]) -> Callable[[H], H]:
        return self._declare("DELETE", path, declaration)

    def _declare(self, verb: Verb, path: str, declaration: Declaration) -> Callable[[H], H]:
        def declare(handler: H) -> H:
            arguments: Any = {**self._defaults, **declaration}
            self._api.routes.append(Route(self._api, verb, path, handler, **arguments))
            return handler

        return declare


class Api(Section):
    """A wire protocol: its path prefix, its error names, and its routes.

    `authenticate` replaces the access port for an API whose callers are not principals of the catalog. `rate_limited`
    is false for probes, which must be answered even if their caller sends too many requests. `error_page` shows errors
    to browsers, in an API of pages. `cookie` is the name of the cookie that authenticates its callers instead of a
    bearer token.
    """

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
        authenticate: Authenticate | None = None,
        rate_limited: bool = True,
        error_page: ErrorPage | None = None,
        cookie: str | None = None,
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
        self.authenticate = authenticate
        self.rate_limited = rate_limited
        self.error_page = error_page
        self.cookie = cookie
        self.routes: list[Route] = []
