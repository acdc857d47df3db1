"""Every route of every API, with every kind of caller. A route without a rule in `rules.txt` fails.

A rule lists what the example of a route needs, besides USE CATALOG and USE SCHEMA on the ancestors. Callers with a
wrong token or without a privilege share one catalog, which must not change. A caller that holds all privileges holds
them in four ways: itself, by a group, by a group in a group, and by ownership.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
import pytest_asyncio
from msgspec.structs import force_setattr

from moorage import fresh
from moorage.access.granted import GrantedAccess
from moorage.api.web import web
from moorage.api.web.cookies import SESSION
from moorage.core.entries import Change, SetGrants, Update
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.principals import ADMIN, Principal, TokenDetails, doc_of
from moorage.core.securables import SHELF_OF, Kind, Securable, Shelf
from moorage.core.tokens import digest_of, new_token
from moorage.ledger.port import Ledger, Step
from moorage.testing import builders as make
from moorage.usecases.identity.administrator import ensure_administrator
from tests.api.house import House, open_house
from tests.api.routes import OF_PRINCIPALS, ONLY_REFUSED, Endpoint, furnish, send
from tests.api.test_access_seam import PUBLIC, TAKEN, UNKNOWN, error_of

ANYONE = "anyone"
HIDDEN_FROM_MOST = {"console.getJob"}
"""Answers some callers: the job of the example has no table, so only workers and readers of the feed see it."""

SKIPS_MISSING = {"lance.DropNamespace"}
"""The example asks for success if the object does not exist, so a hidden one is answered with success, too."""

OF_ITS_CREATOR = {"delta.getDeltaStagingTableCredentials"}
"""Only the caller that made a staging table may use it, whatever another one is granted."""

OUTSIDE = {"console.getTableHealth"}
"""The files of the example's table are outside the folders of this server, which only an admitted caller learns."""

WAYS = ("user", "group", "nested group", "owner")


class Rule(NamedTuple):
    grant: str
    kind: Kind
    path: tuple[str, ...]


def parse(text: str) -> tuple[Rule, ...]:
    rules = []
    for part in text.split("; ") if text != ANYONE else ():
        grant, _, target = part.partition(" on ")
        kind, _, path = target.partition(" ")
        rules.append(Rule(grant, Kind(kind), tuple(path.split("/")) if path else ()))
    return tuple(rules)


_lines = (Path(__file__).parent / "rules.txt").read_text().splitlines()
RULES = {name: parse(rule) for name, _, rule in (line.partition(": ") for line in _lines)}

# A stream never ends; `test_feed` reads it.
ROUTES = [
    endpoint for endpoint in OF_PRINCIPALS if str(endpoint) not in PUBLIC and endpoint.route.operation != "streamFeed"
]
GRANTABLE = {name for name, rules in RULES.items() if rules} - OF_ITS_CREATOR
_numbers = count(1)


def test_every_route_has_a_rule_and_every_rule_a_route() -> None:
    assert sorted(RULES) == sorted(map(str, ROUTES))


# --- callers -------------------------------------------------------------------------------------


async def new_caller(house: House, groups: tuple[str, ...] = (), expires_at_ms: int | None = None) -> tuple[str, str]:
    """A new user in these groups, and a token of it."""
    name = f"user{next(_numbers)}"
    user = make.create(Kind.USER, house.ledger.root, name, owner="boss", doc=doc_of(Principal(groups=groups)))
    id = fresh.securable_id()
    text = new_token(id, fresh.secret())
    details = TokenDetails(digest=digest_of(text), expires_at_ms=expires_at_ms)
    token = make.create(Kind.TOKEN, user.id, id, id=id, owner="boss", doc=doc_of(details))
    await make.add(house.ledger, user, token)
    return name, text


async def new_group(ledger: Ledger, groups: tuple[str, ...] = ()) -> str:
    name = f"group{next(_numbers)}"
    doc = doc_of(Principal(groups=groups))
    await make.add(ledger, make.create(Kind.GROUP, ledger.root, name, owner="boss", doc=doc))
    return name


async def find(ledger: Ledger, kind: Kind, path: tuple[str, ...]) -> Securable:
    if not path:
        return (await ledger.lineage(ledger.root)).chain[-1]
    above = [Shelf.CATALOG, *[Shelf.NAMESPACE] * (len(path) - 2)][: len(path) - 1]
    if kind is Kind.MODEL_VERSION:
        above[-1] = Shelf.MODEL
    steps = [Step(shelf, name_key(name)) for shelf, name in zip((*above, SHELF_OF[kind]), path, strict=True)]
    chain = (await ledger.walk(steps)).chain
    assert len(chain) == len(path), path
    return chain[-1]


async def give(ledger: Ledger, principal: str, rules: tuple[Rule, ...], *, own: bool = False) -> None:
    """Grant what the rules list, and the use of the ancestors. `own`: make it the owner instead."""
    wanted: dict[SecurableId, tuple[Securable, set[str]]] = {}
    owned: dict[SecurableId, Securable] = {}
    for rule in rules:
        found = await find(ledger, rule.kind, rule.path)
        if own or rule.grant == "OWNER":
            owned[found.id] = found
        else:
            wanted.setdefault(found.id, (found, set()))[1].add(rule.grant)
        for part in (await ledger.lineage(found.id)).chain if rule.path else ():
            if part.kind in (Kind.CATALOG, Kind.NAMESPACE):
                use = "USE CATALOG" if part.kind is Kind.CATALOG else "USE SCHEMA"
                wanted.setdefault(part.id, (part, set()))[1].add(use)
    changes: list[Change] = [
        SetGrants(id=id, grants={**found.grants, principal: tuple(sorted(held))})
        for id, (found, held) in wanted.items()
    ]
    changes += [Update(id=id, doc=found.doc, owner=principal) for id, found in owned.items()]
    if changes:
        await make.add(ledger, *changes)


def guard(house: House) -> None:
    force_setattr(house.ports, "access", GrantedAccess(house.ledger, house.ports.page_secret, now_ms=house.clock))


async def ask(house: House, endpoint: Endpoint, token: str | None) -> Any:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    if endpoint.api is web:  # a token that opens no session is presented as one
        headers = {"cookie": "" if token is None else f"{SESSION}={await session_of(house, token) or token}"}
    return await send(house, endpoint.route, headers=headers)


_sessions: dict[str, str | None] = {}


async def session_of(house: House, token: str) -> str | None:
    """The session of a browser that has logged in with a token, or None if it is refused."""
    if token not in _sessions:
        headers = {"sec-fetch-site": "same-origin"}
        answer = await house.console.http.post("/login", content=urlencode({"token": token}), headers=headers)
        _sessions[token] = answer.cookies.get(SESSION)
        house.console.http.cookies.clear()
    return _sessions[token]


def is_done(endpoint: Endpoint, answer: Any) -> bool:
    """Whether a request was carried out. What an example creates may exist, and its fence and its plan are unknown."""
    if str(endpoint) in ONLY_REFUSED:
        return answer.status_code not in (401, 403, 404)
    if str(endpoint) in OUTSIDE and answer.status_code == 400:
        return True
    return not answer.is_error or error_of(answer).endswith(TAKEN)


# --- refused -------------------------------------------------------------------------------------


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with open_house(tmp_path_factory.mktemp("matrix") / "data") as house:
        await furnish(house)
        guard(house)
        yield house


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("endpoint", ROUTES, ids=str)
async def test_wrong_tokens_and_missing_privileges_are_refused(shared: House, endpoint: Endpoint) -> None:
    rules = RULES[str(endpoint)]
    _, expired = await new_caller(shared, expires_at_ms=shared.clock.now_ms)
    unknown = new_token(fresh.securable_id(), fresh.secret())
    _, stranger = await new_caller(shared)
    partial = []
    for rule in rules:
        name, token = await new_caller(shared)
        await give(shared.ledger, name, tuple(each for each in rules if each != rule))
        partial.append(token)
    for token in (stranger, *partial) if endpoint.api is web else ():
        assert await session_of(shared, token)
    before = (await shared.ledger.position()).seq
    for wrong in (None, unknown, expired):
        answer = await ask(shared, endpoint, wrong)
        assert (answer.status_code, error_of(answer)) in UNKNOWN, answer.text
    refused = [stranger, *partial] if rules or str(endpoint) in HIDDEN_FROM_MOST else []
    for token in refused:
        answer = await ask(shared, endpoint, token)
        is_skipped = answer.is_success and str(endpoint) in SKIPS_MISSING
        assert answer.status_code in (403, 404) or is_skipped, (rules, answer.status_code, answer.text)
    assert (await shared.ledger.position()).seq == before, "a refused request changed something"
    if not refused:
        assert is_done(endpoint, await ask(shared, endpoint, stranger))


OF_THE_SERVER = {"console.readFeed", "console.getHealth", "unity.summary", "control.getMe", "web.showHome"}
"""They show how many entries there are, the server itself, or the caller itself."""


async def test_a_stranger_gets_the_answers_of_an_empty_catalog(tmp_path: Path) -> None:
    """Every route, by name and by id: no answer differs because an object exists."""
    async with open_house(tmp_path / "full") as full, open_house(tmp_path / "empty") as empty:
        await furnish(full)
        for house in (full, empty):
            guard(house)
        callers = [await new_caller(house) for house in (full, empty)]
        for endpoint in ROUTES:
            if str(endpoint) in OF_THE_SERVER:
                continue
            answers = []
            for house, (name, token) in zip((full, empty), callers, strict=True):
                answer = await ask(house, endpoint, token)
                text = answer.text.replace(answer.headers["x-request-id"], "").replace(name, "")
                answers.append((answer.status_code, text))
            assert answers[0] == answers[1], str(endpoint)


ENDS_ITSELF = {"web.logOut", "web.createOwnToken", "web.revokeOwnToken"}
"""A browser that logged in with a token for reading ends its session, and manages tokens of the same scope."""


KEYS_TO_WRITE = {"delta.getDeltaStagingTableCredentials", "delta.getDeltaPathCredentials"}
"""The examples ask for keys that write files."""


async def test_a_token_for_reading_reads_everything_and_changes_nothing(tmp_path: Path) -> None:
    async with open_house(tmp_path / "data") as house:
        await furnish(house)
        guard(house)
        await ensure_administrator(house.ledger)
        admin = (await find_principal(house.ledger, ADMIN)).id
        id = fresh.securable_id()
        token = new_token(id, fresh.secret())
        doc = doc_of(TokenDetails(digest=digest_of(token), scope="read"))
        await make.add(house.ledger, make.create(Kind.TOKEN, admin, id, id=id, owner="boss", doc=doc))
        assert await session_of(house, token)
        for endpoint in ROUTES:
            if str(endpoint) in ENDS_ITSELF:
                continue
            before = (await house.ledger.position()).seq
            answer = await ask(house, endpoint, token)
            assert answer.status_code != 401, (str(endpoint), answer.text)
            if str(endpoint) in KEYS_TO_WRITE:
                assert answer.status_code == 403, answer.text
            elif endpoint.route.verb in ("GET", "HEAD"):
                assert is_done(endpoint, answer), (str(endpoint), answer.text)
            assert (await house.ledger.position()).seq == before, (str(endpoint), answer.text)


async def find_principal(ledger: Ledger, name: str) -> Securable:
    return (await ledger.walk((Step(Shelf.PRINCIPAL, name_key(name)),))).chain[-1]


# --- allowed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", [each for each in ROUTES if str(each) in GRANTABLE], ids=str)
async def test_the_privileges_of_the_rule_are_enough(tmp_path: Path, endpoint: Endpoint) -> None:
    """A request that changes something gets a catalog of its own for each way. Reads share one."""
    for group in [(way,) for way in WAYS] if endpoint.route.mutation else [WAYS]:
        async with open_house(tmp_path / group[0]) as house:
            await furnish(house)
            guard(house)
            for way in group:
                answer = await ask(house, endpoint, await holder(house, RULES[str(endpoint)], way))
                assert is_done(endpoint, answer), (way, RULES[str(endpoint)], answer.status_code, answer.text)


async def holder(house: House, rules: tuple[Rule, ...], way: str) -> str:
    """The token of a new user who holds what the rules list, in this way."""
    outer = await new_group(house.ledger)
    inner = await new_group(house.ledger, (outer,))
    name, token = await new_caller(house, {"group": (outer,), "nested group": (inner,)}.get(way, ()))
    await give(house.ledger, name if way in ("user", "owner") else outer, rules, own=way == "owner")
    return token
