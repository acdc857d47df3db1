from __future__ import annotations

from typing import Any

import pytest

from moorage.core.callers import LOCAL
from moorage.core.errors import InvalidInput
from moorage.http import Answer, Call, Example, Headers, NoBody, NoQuery
from moorage.http.calls import idempotency_key
from tests.unit.http.harbour import api_that


async def nothing(call: Call[Any, Any]) -> Answer:
    return Answer.empty()


ROUTE = api_that(nothing, path="/ships/{name}", example=Example(path={"name": "x"})).routes[0]


def call(raw_body: bytes = b"", name: str = "x", **headers: str) -> Call[NoBody, NoQuery]:
    by_name = {key.replace("_", "-").encode(): value.encode("latin-1") for key, value in headers.items()}
    return Call(
        route=ROUTE,
        caller=LOCAL,
        request_id="r",
        params={"name": name},
        query=NoQuery(),
        body=NoBody(),
        raw_body=raw_body,
        headers=Headers(by_name),
    )


def test_the_order_of_json_keys_does_not_change_the_fingerprint() -> None:
    one = call(b'{"a": 1, "b": {"c": 2, "d": 3}}').fingerprint()
    assert one == call(b'{"b":{"d":3,"c":2},"a":1}').fingerprint()


@pytest.mark.parametrize("other", [b'{"a": 2}', b'{"a": "1"}', b'{"a": 1, "new": null}', b"", b"{"])
def test_another_body_has_another_fingerprint(other: bytes) -> None:
    assert call(b'{"a": 1}').fingerprint() != call(other).fingerprint()


def test_another_path_has_another_fingerprint() -> None:
    assert call(name="x").fingerprint() != call(name="y").fingerprint()


def key_of(text: str) -> str | None:
    return idempotency_key(Headers({b"idempotency-key": text.encode("latin-1")}))


def test_an_idempotency_key_is_read_unchanged() -> None:
    assert key_of("a key, 7") == "a key, 7"
    assert idempotency_key(Headers({})) is None


@pytest.mark.parametrize("key", ["", "x" * 256, "schlüssel", "a\tb"])
def test_an_idempotency_key_that_is_empty_too_long_or_not_printable_ascii_is_refused(key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        key_of(key)
    assert refused.value.field == "Idempotency-Key"


def test_header_names_are_case_insensitive() -> None:
    assert call(if_none_match='"7"').header("If-None-Match") == '"7"'
