"""A small API for tests of the HTTP layer, and a function that sends it a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import msgspec

from moorage.core.callers import LOCAL, Caller
from moorage.core.credentials import Credential
from moorage.core.errors import Unauthenticated
from moorage.http import Answer, Api, App, Call, Example, Headers, Limits, NoBody, NoQuery
from moorage.http.app import Observe
from tests.in_process import client_of

SINCE = "2.1.0-moorage.1"


class Ship(msgspec.Struct, frozen=True, kw_only=True):
    """A ship in the harbour."""

    name: str
    flag: str | None = None


class StubAccess:
    def __init__(self) -> None:
        self.asked = 0

    async def authenticate(self, credential: Credential | None, headers: Headers) -> Caller:
        self.asked += 1
        if headers.get("Authorization") == "Bearer nobody":
            raise Unauthenticated("unknown caller")
        return LOCAL


class Ports:
    def __init__(self) -> None:
        self.access = StubAccess()


def new_api(name: str = "harbour", prefix: str = "/harbour", **changes: Any) -> Api:
    return Api(
        name,
        prefix=prefix,
        file="harbour.yaml",
        title="Harbour",
        description="Ships come and go.",
        tags={"ships": "Ships."},
        parameters={"name": "The ship's name."},
        **changes,
    )


Behaviour = Callable[[Call[Any, Any]], Awaitable[Answer]]


def api_that(behave: Behaviour, *, verb: str = "get", path: str = "/ships", **options: Any) -> Api:
    """An API with one route, which calls `behave`."""
    api = new_api()

    async def handler(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
        return await behave(call)

    body, query = options.get("body", NoBody), options.get("query", NoQuery)
    handler.__annotations__["call"] = Call[body, query]  # type: ignore[valid-type]
    declare = getattr(api, verb)
    declare(
        path, **{"operation": "act", "summary": "Act.", "stage": "ga", "since": SINCE, "example": Example(), **options}
    )(handler)
    return api


def app_of(*apis: Api, limits: Limits | None = None, observe: Observe | None = None) -> App:
    return App(apis, Ports(), limits=limits, observe=observe)


async def ask(app: App, verb: str, path: str, **given: Any) -> httpx.Response:
    async with client_of(app) as client, asyncio.timeout(10):
        return await client.request(verb, path, **given)
