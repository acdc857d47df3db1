"""Sending a request until it is answered: one key for all tries, so that trying again is always safe."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlsplit
from uuid import uuid4

import httpx
import msgspec

from moorage.client.answers import Page
from moorage.client.errors import UNEXPECTED_ANSWER, UNREACHABLE, ClientError
from moorage.core.errors import Advice
from moorage.core.hosts import is_loopback

A = TypeVar("A")
T = TypeVar("T")
OnRetry = Callable[[ClientError], None]
Refused = Callable[[httpx.Response], ClientError]
"""How an API words its refusals."""
Query = Mapping[str, Any]
"""What is empty, zero or false is left to the server's default."""

API: Final = "/api/moorage/v1"
PATIENCE_SECONDS: Final = 30.0
_KEY: Final = "idempotency-key"
_NO_QUERY: Final[Query] = {}
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
# The server waits up to 25 s for news and works up to 30 s on a request by default.
_TIMEOUT: Final = httpx.Timeout(40.0, connect=5.0)


class _Refusal(msgspec.Struct):
    code: str
    message: str
    advice: str
    request_id: str | None = None
    field: str | None = None
    details: dict[str, Any] = {}


class _Refused(msgspec.Struct):
    error: _Refusal


def address(*parts: str) -> str:
    """A path of names, each of them kept whole whatever characters it has."""
    return "".join(f"/{_quoted(part)}" for part in parts)


def _quoted(name: str) -> str:
    # '.' and '..' are good names here, but every HTTP library would take them for steps of a path.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


class Transport:
    """One connection pool to one server. May be used by several threads."""

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = PATIENCE_SECONDS,
        on_retry: OnRetry | None = None,
        refused: Refused | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._patience_s = patience_s
        self._on_retry = on_retry
        self._refused = refused or refusal
        # A proxy from the environment cannot reach our own loopback address.
        self._http = httpx.Client(timeout=_TIMEOUT, trust_env=not is_loopback(urlsplit(self.url).hostname or ""))

    def close(self) -> None:
        self._http.close()

    def read(self, path: str, answer: type[A], query: Query = _NO_QUERY, *, patience_s: float | None = None) -> A:
        """GET; a read may always be repeated."""
        return self._send(self._request("GET", path, query, None), answer, patience_s)

    def list(self, path: str, page: type[Page[T]], query: Query = _NO_QUERY) -> Iterator[T]:
        """All of a list, read page by page."""
        token = None
        while token != "":
            found = self.read(path, page, {**query, "page_token": token})
            yield from found.items
            token = found.next_page_token or ""

    def change(
        self,
        verb: str,
        path: str,
        answer: type[A],
        *,
        body: Any = None,
        query: Query = _NO_QUERY,
        key: str | None = None,
    ) -> A:
        """A change of facts. Its key makes the server answer a repetition with the first outcome."""
        request = self._request(verb, path, query, body)
        request.headers[_KEY] = key or uuid4().hex
        return self._send(request, answer, None)

    def note(self, path: str, answer: type[A], *, body: Any, patience_s: float | None = None) -> A:
        """A POST without a key, of what only moves forward: saying it twice does no harm."""
        return self._send(self._request("POST", path, _NO_QUERY, body), answer, patience_s)

    def _request(self, verb: str, path: str, query: Query, body: Any) -> httpx.Request:
        params = {name: str(value).lower() if value is True else str(value) for name, value in query.items() if value}
        request = self._http.build_request(
            verb, self.url + path, params=params or None, content=None if body is None else msgspec.json.encode(body)
        )
        if body is not None:
            request.headers["content-type"] = "application/json"
        return request

    def _send(self, request: httpx.Request, answer: type[A], patience_s: float | None) -> A:
        deadline = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        pause_s = _FIRST_PAUSE_SECONDS
        while True:
            wanted_s = 0.0
            try:
                response = self._http.send(request)
            except httpx.TransportError as failure:
                error = _unreachable(self.url, failure)
            else:
                if response.is_success:
                    return _decoded(response, answer)
                error, wanted_s = self._refused(response), _retry_after(response)
            wait_s = max(pause_s * random.uniform(0.5, 1.0), wanted_s)
            if not _may_repeat(error, keyed=_KEY in request.headers) or time.monotonic() + wait_s > deadline:
                raise error
            if self._on_retry is not None:
                self._on_retry(error)
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_SECONDS)


def _may_repeat(error: ClientError, *, keyed: bool) -> bool:
    """With a key even an unknown outcome may be asked for again: the repetition hears what became of it."""
    return error.is_passing or error.status == 429 or (keyed and error.code == "OUTCOME_UNKNOWN")


def _decoded(response: httpx.Response, answer: type[A]) -> A:
    try:
        return msgspec.json.decode(response.content or b"null", type=answer)
    except msgspec.DecodeError as error:
        raise ClientError(
            f"{response.url} answered what no Moorage would ({error}); check the address",
            code=UNEXPECTED_ANSWER,
            advice=Advice.NEVER,
            status=response.status_code,
        ) from error


def refusal(response: httpx.Response) -> ClientError:
    """What the server's own API refuses with."""
    try:
        said = msgspec.json.decode(response.content, type=_Refused).error
        advice = Advice(said.advice)
    except (msgspec.DecodeError, ValueError):
        return ClientError(
            f"{response.url} answered {response.status_code} without a reason; is a Moorage server behind it?",
            code=UNEXPECTED_ANSWER,
            advice=Advice.NEVER,
            status=response.status_code,
        )
    return ClientError(
        said.message,
        code=said.code,
        advice=advice,
        status=response.status_code,
        field=said.field,
        request_id=said.request_id,
        details=said.details,
    )


def _unreachable(url: str, failure: httpx.TransportError) -> ClientError:
    reason = str(failure) or type(failure).__name__
    return ClientError(
        f"cannot reach {url}: {reason}; is `moorage serve` running there?", code=UNREACHABLE, advice=Advice.ASK_FIRST
    )


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
