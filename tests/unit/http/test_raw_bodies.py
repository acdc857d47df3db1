"""A binary body reaches the handler unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from moorage.http import Answer, Call, Example, Limits
from moorage.http.openapi import documents
from tests.unit.http.harbour import api_that, app_of, ask

CARGO = "application/vnd.cargo"


async def weigh(call: Call[Any, Any]) -> Answer:
    return Answer.json({"bytes": len(call.body), "first": call.body[:1].hex()})


def binary_api(**options: Any) -> Any:
    return api_that(weigh, verb="post", body=bytes, takes=CARGO, example=Example(body="AAE="), **options)


@pytest.mark.parametrize("body", [b"", b"{", b"\x00\xff", b"x" * 1000])
async def test_a_binary_body_is_not_parsed(body: bytes) -> None:
    answer = await ask(app_of(binary_api()), "POST", "/harbour/ships", content=body)
    assert answer.json() == {"bytes": len(body), "first": body[:1].hex()}


async def test_the_body_limit_applies_to_binary_bodies() -> None:
    app = app_of(binary_api(), limits=Limits(body_bytes=10))
    assert (await ask(app, "POST", "/harbour/ships", content=b"x" * 11)).status_code == 413


def test_the_openapi_file_names_the_media_type_of_a_binary_body() -> None:
    operation = documents([binary_api()])["harbour.yaml"]["paths"]["/harbour/ships"]["post"]
    (named,) = operation["requestBody"]["content"].items()
    assert named[0] == CARGO
    assert named[1]["schema"]["format"] == "binary"
    assert named[1]["example"] == "AAE="


def test_the_example_of_a_binary_body_must_be_base64() -> None:
    with pytest.raises(TypeError, match="example's body"):
        api_that(weigh, verb="post", body=bytes, takes=CARGO, example=Example(body="no base64"))
