"""Nobody gets past the door: every route asks who is there, and every use case whether they may."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

import moorage
from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from tests.api.doors import NamedCallers, NobodyIsKnown, NobodyMay
from tests.api.house import House
from tests.api.routes import EVERY_ROUTE, ONLY_REFUSED, Place, furnish, send

PUBLIC = {
    "lance.GetToken",
    "oauth.getToken",
    "server.checkAlive",
    "server.headAlive",
    "server.checkReady",
    "server.headReady",
    "server.readMetrics",
}
"""Probes and metrics, and where those go who have no token yet. Whoever adds to this list opens a door to everybody."""

GUARDED = [place for place in EVERY_ROUTE if str(place) not in PUBLIC]


FORBIDDEN = [
    (403, name)
    for name in (
        "FORBIDDEN",
        "PERMISSION_DENIED",
        "PermissionDeniedException",
        "ForbiddenException",
        "PermissionDenied",
    )
]
UNKNOWN = [(401, name) for name in ("UNAUTHENTICATED", "NotAuthorizedException", "Unauthenticated")]


KEY = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d99"
"""A UUID: Iceberg takes no other keys."""


def error_of(answer: Any) -> str:
    if answer.request.method == "HEAD":
        return {401: "UNAUTHENTICATED", 403: "FORBIDDEN"}.get(answer.status_code, "")
    body = answer.json()
    if "error" not in body:
        return str(body["error_code"])
    if isinstance(body["error"], str):  # Lance's: the detail begins with the name of the code
        return str(body["detail"]).partition(" ")[0]
    return str(body["error"].get("type", body["error"]["code"]))


def test_only_probes_metrics_and_tokens_are_public() -> None:
    assert {str(place) for place in EVERY_ROUTE if place.route.public} == PUBLIC


@pytest.mark.parametrize("place", GUARDED, ids=str)
async def test_who_may_nothing_is_forbidden_everything(house: House, place: Place) -> None:
    await furnish(house)
    force_setattr(house.ports, "access", NobodyMay())
    seq = (await house.ledger.mark()).seq
    for headers in ({}, {"idempotency-key": KEY}):
        answer = await send(house, place.route, headers=headers)
        assert (answer.status_code, error_of(answer)) in FORBIDDEN, answer.text
    assert (await house.ledger.mark()).seq == seq
    assert await house.ledger.receipt("local", KEY) is None


@pytest.mark.parametrize("place", GUARDED, ids=str)
async def test_who_is_not_known_is_turned_away_before_anything_else(house: House, place: Place) -> None:
    force_setattr(house.ports, "access", NobodyIsKnown())
    for raw in (None, b"{not json"):
        answer = await send(house, place.route, raw=raw)
        assert (answer.status_code, error_of(answer)) in UNKNOWN, answer.text
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_probes_and_metrics_are_answered_to_anybody(house: House) -> None:
    force_setattr(house.ports, "access", NobodyIsKnown())
    for place in EVERY_ROUTE:
        if place.api.name == "server":
            assert (await send(house, place.route)).status_code == 200


class Recording(NamedCallers):
    """Allows everything and remembers what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Privilege] = []

    def allow(self, caller: Caller, privilege: Privilege, chain: Any) -> bool:
        self.asked.append(privilege)
        return True


TAKEN = (
    "NAME_TAKEN",
    "LEASE_LOST",
    "ALREADY_EXISTS",
    "AlreadyExistsException",
    "NoSuchPlanIdException",
    "NoSuchPlanTaskException",
)

# A stream has no end to wait for here; `test_feed` listens to it.
ENDING = [place for place in GUARDED if place.route.operation != "streamFeed"]


@pytest.mark.parametrize("place", ENDING, ids=str)
async def test_the_example_of_a_route_is_carried_out_after_asking(house: House, place: Place) -> None:
    """Otherwise the tests above could pass on requests that never get as far as a use case."""
    await furnish(house)
    access = Recording()
    force_setattr(house.ports, "access", access)
    answer = await send(house, place.route)
    # What an example creates is there by now, its fence is known to no worker, and its plan to no server.
    known = answer.is_success or error_of(answer).endswith(TAKEN) or str(place) in ONLY_REFUSED
    assert known, answer.text
    assert access.asked


# --- the use cases themselves ----------------------------------------------------------------------

CARRIED_OUT = {"settle.settle", "settle.settle_one"}
"""Makes history of what a use case has prepared, after that has asked."""

SHOWN_ALREADY = {"browse.names_above"}
"""Names the ancestors of an object that the caller was allowed to see a moment ago."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
PACKAGE = Path(moorage.__file__).parent


def functions_of(room: str) -> Iterator[tuple[str, Function]]:
    for file in sorted((PACKAGE / room).rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, Function):
                yield f"{file.stem}.{node.name}", node


USE_CASES = dict(functions_of("usecases"))


def called(node: ast.AST) -> set[str]:
    """What is called in here, as `name` or `module.name`."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            if isinstance(part.func, ast.Name):
                found.add(part.func.id)
            elif isinstance(part.func, ast.Attribute) and isinstance(part.func.value, ast.Name):
                found.add(f"{part.func.value.id}.{part.func.attr}")
    return found


def asked_for_by_apis() -> set[str]:
    """The use cases that some API calls: `module.name(ports, …)`, or by a name that it has imported."""
    by_name = {name.partition(".")[2]: name for name in USE_CASES if "._" not in name}
    found = {name for _, node in functions_of("api") for name in called(node)}
    full = {by_name.get(name, name) for name in found}
    return {name for name in full if name in USE_CASES and "ports" in parameters(USE_CASES[name])}


def parameters(node: Function) -> set[str]:
    return {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}


def asks(name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether the use case asks access, itself or through another one that it calls."""
    module = name.partition(".")[0]
    for each in called(USE_CASES[name]):
        if each == "require":
            return True
        candidates = [each, f"{module}.{each}", *(other for other in USE_CASES if other.endswith(f".{each}"))]
        for other in candidates:
            if other in USE_CASES and other not in seen | {name} | CARRIED_OUT and asks(other, seen | {name}):
                return True
    return False


ASKED_FOR = sorted(asked_for_by_apis() - CARRIED_OUT - SHOWN_ALREADY)


def test_the_use_cases_of_the_apis_are_found() -> None:
    """Or the tests below would hold of nothing."""
    expected = {"trunk.prepare_create", "browse.page", "jobs.take", "feed.entries", "transact.transact"}
    assert expected <= set(ASKED_FOR)


@pytest.mark.parametrize("name", ASKED_FOR)
def test_a_use_case_is_told_who_asks(name: str) -> None:
    assert parameters(USE_CASES[name]) & {"caller", "errand"}


@pytest.mark.parametrize("name", sorted(set(ASKED_FOR) - {"transact.transact"}))
def test_a_use_case_asks_whether_they_may(name: str) -> None:
    assert asks(name)


def test_every_operation_of_a_transaction_asks_whether_they_may() -> None:
    """`transact` finds them in a table; each is prepared by a function that asks."""
    preparers = [
        name
        for name, node in USE_CASES.items()
        if any("offers" in called(decorator) for decorator in node.decorator_list)
    ]
    assert len(preparers) >= 4
    assert [name for name in preparers if not asks(name)] == []
