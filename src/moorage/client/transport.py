"""Sends a request and retries it. All attempts carry the same idempotency key, so a retry is always safe."""

from __future__ import annotations

import os
import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import cache
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
"""Decodes the error response of an API."""
Query = Mapping[str, Any]
"""Empty, zero and false values are not sent, so the server's defaults apply."""

API: Final = "/api/moorage/v1"
PATIENCE_SECONDS: Final = 30.0
_KEY: Final = "idempotency-key"
_NO_QUERY: Final[Query] = {}
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
# By default, the server waits up to 25 s in a long poll and works up to 30 s on a request.
_TIMEOUT: Final = httpx.Timeout(40.0, connect=5.0)
_LONG_TIMEOUT: Final = httpx.Timeout(600.0, connect=5.0)
"""For operations that the server lets take longer: it lists or deletes all files of a table in an object store."""


class _ErrorDetail(msgspec.Struct):
    code: str
    message: str
    advice: str
    request_id: str | None = None
    field: str | None = None
    details: dict[str, Any] = {}


class _ErrorBody(msgspec.Struct):
    error: _ErrorDetail


def address(*parts: str) -> str:
    """A URL path of names. Each name is quoted, so it stays one segment whatever characters it has."""
    return "".join(f"/{_quoted(part)}" for part in parts)


def _quoted(name: str) -> str:
    # '.' and '..' are valid names here, but HTTP libraries would resolve them as relative paths.
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


class Transport:
    """A connection pool to one server. It is thread-safe."""

    def __init__(
        self,
        url: str,
        *,
        patience_s: float = PATIENCE_SECONDS,
        on_retry: OnRetry | None = None,
        refused: Refused | None = None,
        token: str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._patience_s = patience_s
        self._on_retry = on_retry
        self._refused = refused or refusal
        self._headers: Mapping[str, str] = {}
        # A proxy set in the environment cannot reach the loopback address of this machine.
        self._http = httpx.Client(
            timeout=_TIMEOUT,
            trust_env=not is_loopback(urlsplit(self.url).hostname or ""),
            verify=_authorities(os.environ.get("SSL_CERT_FILE")),
            headers={"authorization": f"Bearer {token}"} if token else None,
        )

    def close(self) -> None:
        self._http.close()

    def with_headers(self, headers: Mapping[str, str]) -> Transport:
        """The same connections, with headers that every request carries."""
        other = copy(self)
        other._headers = {**self._headers, **headers}
        return other

    @property
    def headers(self) -> dict[str, str]:
        """The headers that identify this client: its token, and the job that it acts for."""
        token = self._http.headers.get("authorization")
        return {**({"authorization": token} if token else {}), **self._headers}

    def answering(self, refused: Refused) -> Transport:
        """The same connections, for an API whose error responses are decoded by `refused`."""
        other = copy(self)
        other._refused = refused
        return other

    def read(self, path: str, answer: type[A], query: Query = _NO_QUERY, *, patience_s: float | None = None) -> A:
        """Send a GET request. A read can always be retried."""
        return self._send(self._request("GET", path, query, None), answer, patience_s)

    def list(self, path: str, page: type[Page[T]], query: Query = _NO_QUERY) -> Iterator[T]:
        """All items of a list, fetched page by page."""
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
        is_long: bool = False,
    ) -> A:
        """Send a change under an idempotency key, so that a retry returns the first outcome."""
        request = self._request(verb, path, query, body, is_long=is_long)
        request.headers[_KEY] = key or uuid4().hex
        return self._send(request, answer, None)

    def note(
        self, path: str, answer: type[A], *, body: Any, patience_s: float | None = None, is_long: bool = False
    ) -> A:
        """Send a POST request without an idempotency key. Only for operations that are harmless to repeat."""
        return self._send(self._request("POST", path, _NO_QUERY, body, is_long=is_long), answer, patience_s)

    def _request(self, verb: str, path: str, query: Query, body: Any, *, is_long: bool = False) -> httpx.Request:
        params = {name: str(value).lower() if value is True else str(value) for name, value in query.items() if value}
        request = self._http.build_request(
            verb,
            self.url + path,
            params=params or None,
            content=None if body is None else msgspec.json.encode(body),
            timeout=_LONG_TIMEOUT if is_long else _TIMEOUT,
        )
        if body is not None:
            request.headers["content-type"] = "application/json"
        request.headers.update(self._headers)
        return request

    def _send(self, request: httpx.Request, answer: type[A], patience_s: float | None) -> A:
        deadline = time.monotonic() + (self._patience_s if patience_s is None else patience_s)
        pause_s = _FIRST_PAUSE_SECONDS
        while True:
            retry_after_s = 0.0
            try:
                response = self._http.send(request)
            except httpx.TransportError as failure:
                error = _unreachable(self.url, failure)
            else:
                if response.is_success:
                    return _decoded(response, answer)
                error, retry_after_s = self._refused(response), _retry_after(response)
            wait_s = max(pause_s * random.uniform(0.5, 1.0), retry_after_s)
            if not _can_retry(error, keyed=_KEY in request.headers) or time.monotonic() + wait_s > deadline:
                raise error
            if self._on_retry is not None:
                self._on_retry(error)
            time.sleep(wait_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_SECONDS)


@cache
def _authorities(file: str | None) -> ssl.SSLContext:
    """The authorities in a file, or those that are known by default. To load them takes 20 ms."""
    return ssl.create_default_context(cafile=file) if file else httpx.create_ssl_context()


def _can_retry(error: ClientError, *, keyed: bool) -> bool:
    """With an idempotency key, a request can be retried even if its outcome is unknown: the retry returns it."""
    return error.is_transient or error.status == 429 or (keyed and error.code == "OUTCOME_UNKNOWN")


def _decoded(response: httpx.Response, answer: type[A]) -> A:
    try:
        return msgspec.json.decode(response.content or b"null", type=answer)
    except msgspec.DecodeError as error:
        raise ClientError(
            f"{response.url} returned a response that a Moorage server does not send ({error}); check the URL",
            code=UNEXPECTED_ANSWER,
            advice=Advice.NEVER,
            status=response.status_code,
        ) from error


class _UnityError(msgspec.Struct):
    error_code: str
    message: str


def refusal(response: httpx.Response) -> ClientError:
    """Decode an error response of the server's own API, or of its Unity API."""
    try:
        unity = msgspec.json.decode(response.content, type=_UnityError)
    except msgspec.DecodeError:
        return _own_refusal(response)
    advice = Advice.SAME_REQUEST if response.status_code == 503 else Advice.NEVER
    return ClientError(unity.message, code=unity.error_code, advice=advice, status=response.status_code)


def _own_refusal(response: httpx.Response) -> ClientError:
    try:
        detail = msgspec.json.decode(response.content, type=_ErrorBody).error
        advice = Advice(detail.advice)
    except (msgspec.DecodeError, ValueError):
        return ClientError(
            f"{response.url} returned status {response.status_code} without a Moorage error; check the URL",
            code=UNEXPECTED_ANSWER,
            advice=Advice.NEVER,
            status=response.status_code,
        )
    return ClientError(
        detail.message,
        code=detail.code,
        advice=advice,
        status=response.status_code,
        field=detail.field,
        request_id=detail.request_id,
        details=detail.details,
    )


def _unreachable(url: str, failure: httpx.TransportError) -> ClientError:
    reason = str(failure) or type(failure).__name__
    return ClientError(
        f"cannot reach {url}: {reason}; is `moorage serve` running there?", code=UNREACHABLE, advice=Advice.ASK_FIRST
    )


def _retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0
