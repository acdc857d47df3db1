"""Nobody gets past the door: every route asks who is there, and every use case whether they may."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

import moorage
from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.usecases.registry import FORMATS
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
    seq = (await house.ledger.position()).seq
    for headers in ({}, {"idempotency-key": KEY}):
        answer = await send(house, place.route, headers=headers)
        assert (answer.status_code, error_of(answer)) in FORBIDDEN, answer.text
    assert (await house.ledger.position()).seq == seq
    assert await house.ledger.receipt("local", KEY) is None


@pytest.mark.parametrize("place", GUARDED, ids=str)
async def test_who_is_not_known_is_turned_away_before_anything_else(house: House, place: Place) -> None:
    force_setattr(house.ports, "access", NobodyIsKnown())
    for raw in (None, b"{not json"):
        answer = await send(house, place.route, raw=raw)
        assert (answer.status_code, error_of(answer)) in UNKNOWN, answer.text
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("verb", "path"),
    [
        ("POST", "/lance/v1/table/sample$sales$shipments/describe"),
        ("GET", "/iceberg/v1/sample/namespaces/sales/tables/vectors"),
        ("GET", "/api/2.1/unity-catalog/delta/v1/catalogs/sample/schemas/sales/tables/vectors"),
    ],
)
async def test_a_caller_without_privileges_does_not_learn_the_format_of_a_table(
    house: House, verb: str, path: str
) -> None:
    """Each is a table of another format, which a caller with privileges is told."""
    await furnish(house)
    known = await house.console.http.request(verb, path, json={} if verb == "POST" else None)
    assert known.status_code in (400, 404), known.text
    force_setattr(house.ports, "access", NobodyMay())
    answer = await house.console.http.request(verb, path, json={} if verb == "POST" else None)
    assert (answer.status_code, error_of(answer)) in FORBIDDEN, answer.text


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

REQUIRE = "moorage.access.port.require"

CARRIED_OUT = {"settling.settle.settle", "settling.settle.settle_one"}
"""Append what a use case has prepared, after that use case has asked."""

SHOWN_ALREADY = {"catalog.browse.names_above", "delta.lookup.state_of"}
"""Describe an object that the caller was allowed to see a moment ago."""

OPERATIONS = "settling.transact.transact"
"""Finds its operations in a table; a test of their own covers them."""

Symbol = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
PACKAGE = Path(moorage.__file__).parent


class Module:
    """What one source file defines, and what each of its imported names stands for."""

    def __init__(self, file: Path) -> None:
        self.name = ".".join(("moorage", *file.relative_to(PACKAGE).with_suffix("").parts))
        body = ast.parse(file.read_text()).body
        self.symbols = {f"{self.name}.{node.name}": node for node in body if isinstance(node, Symbol)}
        self.imported = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def used(self, node: ast.AST) -> set[str]:
        """The qualified names of what is called in here, or passed to what is called."""
        found = set()
        for part in ast.walk(node):
            if isinstance(part, ast.Call):
                passed = (part.func, *part.args, *(keyword.value for keyword in part.keywords))
                found |= {name for each in passed if (name := self._qualified(each)) is not None}
        return found

    def _qualified(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            own = f"{self.name}.{node.id}"
            return own if own in self.symbols else self.imported.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.imported:
            return f"{self.imported[node.value.id]}.{node.attr}"
        return None


def modules_of(room: str) -> list[Module]:
    return [Module(file) for file in sorted((PACKAGE / room).rglob("*.py"))]


PREFIX = "moorage.usecases."
USES = {name: module.used(node) for module in modules_of("usecases") for name, node in module.symbols.items()}
USE_CASES = {name: node for module in modules_of("usecases") for name, node in module.symbols.items()}


def asked_for_by_apis() -> set[str]:
    """The use cases that some API calls with its ports."""
    found = {name for module in modules_of("api") for node in module.symbols.values() for name in module.used(node)}
    return {name for name in found if "ports" in parameters(USE_CASES.get(name))}


def parameters(node: ast.AST | None) -> set[str]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return set()
    return {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}


def asks(name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether the use case asks access, itself or through another one that it uses."""
    if REQUIRE in USES[name]:
        return True
    later = USES[name] - seen - {name} - {PREFIX + each for each in CARRIED_OUT}
    return any(asks(each, seen | {name}) for each in later if each in USES)


def short(name: str) -> str:
    return name.removeprefix(PREFIX)


ASKED_FOR = sorted({short(name) for name in asked_for_by_apis()} - CARRIED_OUT - SHOWN_ALREADY)


def test_the_use_cases_of_the_apis_are_found() -> None:
    """Or the tests below would hold of nothing."""
    expected = {"catalog.browse.page", "upkeep.jobs.take", "catalog.feed.entries", OPERATIONS}
    assert expected <= set(ASKED_FOR)


@pytest.mark.parametrize("name", ASKED_FOR)
def test_a_use_case_is_told_who_asks(name: str) -> None:
    assert parameters(USE_CASES[PREFIX + name]) & {"caller", "errand"}


@pytest.mark.parametrize("name", sorted(set(ASKED_FOR) - {OPERATIONS}))
def test_a_use_case_asks_whether_they_may(name: str) -> None:
    assert asks(PREFIX + name)


def test_two_functions_of_one_name_are_told_apart() -> None:
    """`_prepare` of one module checks access and `_prepare` of another does not: names are resolved by imports."""
    assert asks(PREFIX + "catalog.roots._prepare")
    assert not asks(PREFIX + "settling.transact._prepare")


def test_every_operation_of_a_transaction_asks_whether_they_may() -> None:
    """`transact` finds them in a table; each is prepared by a function that asks."""
    begins = [offer.begin for offer in FORMATS.operations.values()]
    # What `offer` was given is in the closure of the function that it made.
    prepares = [begin.__closure__[0].cell_contents if begin.__closure__ else begin for begin in begins]
    assert len(prepares) >= 8
    assert [each for each in prepares if not asks(f"{each.__module__}.{each.__qualname__}")] == []
