"""Invalid input gets a 4xx that names the field, never a 500, and never a partial change."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx
import msgspec
import pytest
from msgspec import inspect as shapes

from moorage.core.entries import MAX_DRAFT_BYTES
from moorage.http import FORM, NoBody, NoQuery
from tests.api.house import House, done, refused
from tests.api.routes import OF_PRINCIPALS, ONLY_REFUSED, Endpoint, furnish, path_of, send

WITH_BYTES = [endpoint for endpoint in OF_PRINCIPALS if endpoint.route.body is bytes]
WITH_BODY = [
    endpoint
    for endpoint in OF_PRINCIPALS
    if endpoint.route.body not in (NoBody, bytes) and endpoint.route.takes != FORM
]
WITH_FIELDS = [
    endpoint for endpoint in WITH_BODY if isinstance(shapes.type_info(endpoint.route.body), shapes.StructType)
]
WITH_QUERY = [endpoint for endpoint in OF_PRINCIPALS if endpoint.route.query is not NoQuery]
WITH_PATH = [endpoint for endpoint in OF_PRINCIPALS if endpoint.route.pattern.names]

WRONG_BODIES = [
    b"",
    b" ",
    b"{",
    b"}",
    b"null",
    b"true",
    b"1",
    b'"text"',
    b"[]",
    b"[{}]",
    b"NaN",
    b"{'a': 1}",
    b'{"a": 1,}',
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a" 1}',
    b'{"a": 1} x',
    b"\xef\xbb\xbf{}",
    b"\xff\xfe",
    b"\x00",
    b'{"a": "\n"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 10_000 + b"]" * 10_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
]

WRONG_VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**31,
    2**53,
    2**63,
    2**64,
    -(2**63) - 1,
    1.5,
    "",
    "text",
    "\x00",
    "🚢" * 300,
    [],
    [None],
    [[]],
    ["\x00"],
    {},
    {"a": None},
    {"a": []},
    {"a": "\x00"},
    {"\x00": "a"},
    [{}],
]

# JSON texts that msgspec's encoder does not produce.
WRONG_TEXTS = [
    b'"\\ud800"',
    b'"a\\udfffb"',
    b'"\\ud800\\u0041"',
    b'{"\\ud800": "a"}',
    b'{"a": "\\ud800"}',
    b'["\\ud800"]',
    b'"\xff"',
    b'"\xed\xa0\x80"',
    b'{"a": "\xff"}',
    b"1e400",
    b"-1e400",
    b'{"a": 1e400}',
    b"9" * 400,
    b"-" + b"9" * 400,
    b'{"a": ' + b"9" * 400 + b"}",
    b'{"a": 123456789012345678901234567890}',
    b"0.1e-400",
    b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 400 + b"1" + b"}" * 400,
    b"-0",
    b'"\\u0000"',
    b'{"a": {"b": ["\\u0000"]}}',
]


def fields_of(endpoint: Endpoint) -> dict[str, shapes.Type]:
    shape = shapes.type_info(endpoint.route.body)
    assert isinstance(shape, shapes.StructType)
    return {field.encode_name: field.type for field in shape.fields}


def field_in(answer: httpx.Response) -> str:
    """The field that an error names. The error formats of other APIs name it in the message."""
    if answer.request.method == "HEAD":
        return "a refusal without a body"
    body = answer.json()
    error = body.get("error", body)
    if isinstance(error, str):
        return f"{body['detail']}: {error}"
    return str(error.get("field", "")) if "advice" in error else str(error.get("message") or error["detail"])


async def settled(house: House, answer: httpx.Response, seq: int) -> int:
    """Require that a refusal changed nothing. Returns the sequence number of the last entry."""
    assert answer.status_code < 500, f"{answer.request.content!r}: {answer.text}"
    now = (await house.ledger.position()).seq
    assert answer.is_success or now == seq, answer.text
    return now


@pytest.mark.parametrize("endpoint", WITH_BODY, ids=str)
async def test_a_body_that_is_no_object_is_refused(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    for raw in WRONG_BODIES:
        if not raw and not endpoint.route.body_required:
            continue
        answer = await send(house, endpoint.route, raw=raw)
        assert answer.status_code == 400, f"{raw[:40]!r}: {answer.status_code} {answer.text}"
        assert field_in(answer), raw[:40]
        assert len(answer.content) < 2_000, "the error repeats a large input"
        await settled(house, answer, seq)


@pytest.mark.parametrize("endpoint", WITH_BYTES, ids=str)
async def test_bytes_of_another_format_are_refused(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    for raw in (b"", b"\x00", b"{}", b"ARROW1", b"\xff" * 100, b64decode(endpoint.route.example.body)[:200]):
        answer = await send(house, endpoint.route, raw=raw)
        assert answer.status_code == 400, f"{raw[:40]!r}: {answer.status_code} {answer.text}"
        assert "body" in field_in(answer)
        await settled(house, answer, seq)


@pytest.mark.parametrize("endpoint", WITH_FIELDS, ids=str)
async def test_a_field_of_the_wrong_type_is_named(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    for name, shape in fields_of(endpoint).items():
        for value in WRONG_VALUES:
            answer = await send(house, endpoint.route, body={**endpoint.route.example.body, name: value})
            seq = await settled(house, answer, seq)
            if not fits(value, endpoint.route.body, name):
                assert answer.status_code == 400, f"{name}={value!r}: {answer.text}"
                assert name in field_in(answer), f"{name}={value!r}: {answer.text} for {shape}"


def fits(value: Any, struct: Any, name: str) -> bool:
    """Whether the type of a field accepts the value."""
    try:
        one = msgspec.defstruct("One", [("field", field_type(struct, name), msgspec.field(name=name))])
        msgspec.convert({name: value}, one)
    except msgspec.ValidationError:
        return False
    return True


def field_type(struct: Any, name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(struct) if field.encode_name == name)


@pytest.mark.parametrize("endpoint", WITH_FIELDS, ids=str)
async def test_text_that_the_ledger_cannot_store_is_refused(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    example = endpoint.route.example.body
    for name in fields_of(endpoint):
        for text in WRONG_TEXTS:
            others = {other: value for other, value in example.items() if other != name}
            raw = msgspec.json.encode(others)[:-1] + (b"," if others else b"") + b'"%s":%s}' % (name.encode(), text)
            answer = await send(house, endpoint.route, raw=raw)
            seq = await settled(house, answer, seq)
            if answer.is_success:
                assert await is_well_formed(house), f"{name}={text[:40]!r} made the feed unreadable"
            elif answer.status_code == 400:
                assert field_in(answer), f"{name}={text[:40]!r}"


async def is_well_formed(house: House) -> bool:
    last = (await house.ledger.position()).seq
    answer = await house.console.get("/feed", after=last - 1)
    answer.content.decode("utf-8")
    return answer.status_code == 200 and b"Infinity" not in answer.content


@pytest.mark.parametrize("endpoint", WITH_FIELDS, ids=str)
async def test_a_missing_field_is_named(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    required = [field.encode_name for field in msgspec.structs.fields(endpoint.route.body) if field.required]
    for name in required:
        without = {other: value for other, value in endpoint.route.example.body.items() if other != name}
        answer = await send(house, endpoint.route, body=without)
        assert answer.status_code == 400
        assert name in field_in(answer)
        await settled(house, answer, seq)


WRONG_QUERIES = ["-1", "1.5", "x", "", "true", "null", "99999999999999999999999", "NaN", "%", "%zz", "%ff", "%00", "[]"]


def wrong_queries(endpoint: Endpoint) -> Iterator[tuple[str, str]]:
    fields = msgspec.structs.fields(endpoint.route.query)
    for name in (field.encode_name for field in fields):
        beside = urlencode({other: value for other, value in endpoint.route.example.query.items() if other != name})
        for value in WRONG_QUERIES:
            yield name, f"{beside}&{name}={value}"
        yield name, f"{beside}&{name}=1&{name}=2"
        yield name, f"{beside}&{name}={'x' * 5000}"


# A valid request for a stream never ends.
ENDING = [endpoint for endpoint in WITH_QUERY if endpoint.route.operation != "streamFeed"]


@pytest.mark.parametrize("endpoint", ENDING, ids=str)
async def test_an_invalid_query_parameter_is_named_or_accepted(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    for name, query in wrong_queries(endpoint):
        answer = await send(house, endpoint.route, query=query)
        seq = await settled(house, answer, seq)
        if answer.status_code == 400 and str(endpoint) not in ONLY_REFUSED:
            assert name in field_in(answer), f"{query[:40]}: {answer.text}"
        if any(query.endswith(f"={bad}") for bad in ("%zz", "%ff", "%00", "%")):
            assert answer.status_code == 400, query


@pytest.mark.parametrize("endpoint", ENDING, ids=str)
async def test_an_unknown_query_parameter_is_ignored(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    plain = await send(house, endpoint.route)
    more = await send(house, endpoint.route, query=f"{plain.request.url.query.decode()}&unknown=value&flag")
    assert not plain.is_error or str(endpoint) in ONLY_REFUSED
    # The first request may have dropped or created the object.
    assert more.status_code in (plain.status_code, 404, 409), more.text


WRONG_SEGMENTS = ["%ff", "%zz", "%", "%00", "%ed%a0%80", "%c0%ae", "a%1f", "%0a", "x" * 256, "x" * 5000, "%7f"]


@pytest.mark.parametrize("endpoint", WITH_PATH, ids=str)
async def test_an_invalid_path_parameter_is_named(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    seq: int = (await house.ledger.position()).seq
    for name in endpoint.route.pattern.names:
        for wrong in WRONG_SEGMENTS:
            path = (
                path_of(endpoint.route, **{name: "\x07here\x07"})
                .replace("%07here%07", wrong)
                .replace("\x07here\x07", wrong)
            )
            answer = await send(house, endpoint.route, path=path)
            assert answer.status_code in (400, 404), f"{path[:80]}: {answer.text}"
            if answer.status_code == 400 and endpoint.route.verb != "HEAD":
                assert name in field_in(answer), f"{path[:80]}: {answer.text}"
            await settled(house, answer, seq)


async def test_unknown_fields_are_ignored(house: House) -> None:
    body = {"name": "lake", "unknown": {"nested": ["value"]}}
    assert done(await house.console.post("/catalogs", body), 201)["name"] == "lake"


@pytest.mark.parametrize(
    ("size", "refusal"),
    [(MAX_DRAFT_BYTES - 100, (400, "DRAFT_TOO_LARGE")), (MAX_DRAFT_BYTES + 1, (413, "BODY_TOO_LARGE", "body"))],
)
async def test_a_description_larger_than_a_draft_is_refused(house: House, size: int, refusal: tuple[Any, ...]) -> None:
    answer = await house.console.post("/catalogs", {"name": "lake", "comment": "x" * size}, key="k")
    refused(answer, *refusal)
    assert (await house.ledger.position()).seq == 1


async def test_numbers_and_nested_values_are_returned_unchanged(house: House) -> None:
    nest: Any = 1
    for _ in range(100):
        nest = [nest]
    args = {"big": 2**63 - 1, "small": -(2**63), "float": 1e300, "tiny": 5e-324, "nest": nest, "text": "🚢\u2028"}
    job = done(await house.console.post("/jobs", {"kind": "audit", "args": args}), 202)
    assert job["args"] == args
    assert done(await house.console.get(f"/jobs/{job['id']}"))["args"] == args
