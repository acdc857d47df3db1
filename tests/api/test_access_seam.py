"""Access control: every route authenticates its caller, and every use case checks privileges."""

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
from tests.api.doors import DenyAll, NamedCallers, UnknownCaller
from tests.api.house import House
from tests.api.routes import EVERY_ROUTE, OF_PRINCIPALS, ONLY_REFUSED, Endpoint, furnish, send

PUBLIC = {
    "lance.GetToken",
    "oauth.getToken",
    "sessions.exchangeToken",
    "sessions.logout",
    "server.checkAlive",
    "server.headAlive",
    "server.checkReady",
    "server.headReady",
    "server.readMetrics",
    "sharing.readSharedFile",
    "sharing.headSharedFile",
    "unity.retrieveToken",
    "unity.downloadToken",
    "unity.getActivationUrlInfo",
    "web.beginLogin",
    "web.finishLogin",
    "web.logIn",
    "web.showLogin",
}
"""Probes, metrics and the routes that issue tokens or sessions; an activation link is itself the credential.
Adding a route to this list opens it to every client."""

AUTHENTICATED = [endpoint for endpoint in EVERY_ROUTE if str(endpoint) not in PUBLIC]
GUARDED = [endpoint for endpoint in OF_PRINCIPALS if str(endpoint) not in PUBLIC]


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
"""A UUID: Iceberg accepts no other keys."""


def error_of(answer: Any) -> str:
    if answer.request.method == "HEAD":
        return {401: "UNAUTHENTICATED", 403: "FORBIDDEN"}.get(answer.status_code, "")
    body = answer.json()
    if "error" not in body:
        return str(body.get("error_code") or body["errorCode"])
    if isinstance(body["error"], str):  # Lance: the detail begins with the name of the code
        return str(body["detail"]).partition(" ")[0]
    return str(body["error"].get("type", body["error"]["code"]))


def test_only_probes_metrics_and_tokens_are_public() -> None:
    assert {str(endpoint) for endpoint in EVERY_ROUTE if endpoint.route.public} == PUBLIC


@pytest.mark.parametrize("endpoint", GUARDED, ids=str)
async def test_a_caller_without_privileges_is_refused_by_every_route(house: House, endpoint: Endpoint) -> None:
    await furnish(house)
    force_setattr(house.ports, "access", DenyAll())
    seq = (await house.ledger.position()).seq
    for headers in ({}, {"idempotency-key": KEY}):
        answer = await send(house, endpoint.route, headers=headers)
        assert (answer.status_code, error_of(answer)) in FORBIDDEN, answer.text
    assert (await house.ledger.position()).seq == seq
    assert await house.ledger.receipt("local", KEY) is None


@pytest.mark.parametrize("endpoint", AUTHENTICATED, ids=str)
async def test_an_unknown_caller_is_refused_before_anything_else(house: House, endpoint: Endpoint) -> None:
    force_setattr(house.ports, "access", UnknownCaller())
    for raw in (None, b"{not json"):
        answer = await send(house, endpoint.route, raw=raw)
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
    """Each table has another format than the API serves. A caller with privileges gets an error that says so."""
    await furnish(house)
    known = await house.console.http.request(verb, path, json={} if verb == "POST" else None)
    assert known.status_code in (400, 404), known.text
    force_setattr(house.ports, "access", DenyAll())
    answer = await house.console.http.request(verb, path, json={} if verb == "POST" else None)
    assert (answer.status_code, error_of(answer)) in FORBIDDEN, answer.text


async def test_probes_and_metrics_need_no_authentication(house: House) -> None:
    force_setattr(house.ports, "access", UnknownCaller())
    for endpoint in EVERY_ROUTE:
        if endpoint.api.name == "server":
            assert (await send(house, endpoint.route)).status_code == 200


class Recording(NamedCallers):
    """Grants every privilege and records which ones were checked."""

    def __init__(self) -> None:
        super().__init__()
        self.checked: list[Privilege] = []

    def allow(self, caller: Caller, privilege: Privilege, chain: Any) -> bool:
        self.checked.append(privilege)
        return True


TAKEN = (
    "NAME_TAKEN",
    "LEASE_LOST",
    "ALREADY_EXISTS",
    "AlreadyExistsException",
    "NoSuchPlanIdException",
    "NoSuchPlanTaskException",
)

# A stream never ends; `test_feed` reads it.
ENDING = [endpoint for endpoint in GUARDED if endpoint.route.operation != "streamFeed"]


@pytest.mark.parametrize("endpoint", ENDING, ids=str)
async def test_the_example_of_a_route_is_carried_out_after_an_access_check(house: House, endpoint: Endpoint) -> None:
    """Otherwise the tests above could pass on requests that never reach a use case."""
    await furnish(house)
    access = Recording()
    force_setattr(house.ports, "access", access)
    answer = await send(house, endpoint.route)
    # The object that an example creates may exist already, and its fence and its plan are unknown.
    known = not answer.is_error or error_of(answer).endswith(TAKEN) or str(endpoint) in ONLY_REFUSED
    assert known, answer.text
    assert access.checked


# --- the use cases themselves ----------------------------------------------------------------------

REQUIRE = {"moorage.access.port.require", "moorage.access.port.require_in_area"}

SETTLING = {"settling.settle.settle", "settling.settle.settle_one"}
"""Append what a use case has prepared, after that use case has checked access."""

AUTHENTICATING = {
    "identity.sessions.open_session",
    "identity.browser_sessions.begin_login",
    "identity.browser_sessions.finish_login",
    "identity.browser_sessions.log_in_by_token",
}
"""Authenticate the caller themselves, by the token that a request exchanges or that a provider issues."""

CHECKED_BEFORE = {
    "catalog.browse.names_above",
    "catalog.credentials.for_changed",
    "delta.claims.converted_block",
    "delta.lookup.state_of",
    "lance.storage_options.new_storage_options",
    "lance.storage_options.storage_options",
    "sharing.activation.links_of",
    "storage.external_locations.credential_names",
    "upkeep.job_views.visible_job",
}
"""Describe an object or vend a key for it after another use case has checked that the caller may see it."""

BY_LINK = {
    "sharing.activation.find_activation",
    "sharing.activation.activate",
    "sharing.shared_files.open_file",
    "sharing.shared_files.read_chunks",
}
"""The link is the credential: of a recipient that has none yet, or for one file."""

BY_SHARE = {"recipient", "shared"}
"""A recipient reads what was shared with it. Only `granted.find_table` returns a shared table."""

OPERATIONS = "settling.transact.transact"
"""Finds its operations in a table, which a separate test covers."""

Symbol = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
PACKAGE = Path(moorage.__file__).parent


class Module:
    """What one source file defines, and what its imported names refer to."""

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
        """The qualified names of the functions that the node calls, or passes to a call."""
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


def used_by_apis() -> set[str]:
    """The use cases that an API calls with its ports."""
    found = {name for module in modules_of("api") for node in module.symbols.values() for name in module.used(node)}
    return {name for name in found if "ports" in parameters(USE_CASES.get(name))}


def parameters(node: ast.AST | None) -> set[str]:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return set()
    return {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}


def checks_access(name: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether the use case checks access, directly or through another use case."""
    if REQUIRE & USES[name]:
        return True
    later = USES[name] - seen - {name} - {PREFIX + each for each in SETTLING}
    return any(checks_access(each, seen | {name}) for each in later if each in USES)


def short(name: str) -> str:
    return name.removeprefix(PREFIX)


USED_BY_APIS = sorted(
    short(name)
    for name in used_by_apis()
    if short(name) not in SETTLING | CHECKED_BEFORE | AUTHENTICATING | BY_LINK
    and not parameters(USE_CASES[name]) & BY_SHARE
)


def test_the_use_cases_of_the_apis_are_found() -> None:
    """Otherwise the tests below would check nothing."""
    expected = {"catalog.browse.page", "upkeep.jobs.take", "catalog.feed.entries", OPERATIONS}
    assert expected <= set(USED_BY_APIS)


@pytest.mark.parametrize("name", USED_BY_APIS)
def test_a_use_case_receives_its_caller(name: str) -> None:
    assert parameters(USE_CASES[PREFIX + name]) & {"caller", "errand"}


@pytest.mark.parametrize("name", sorted(set(USED_BY_APIS) - {OPERATIONS}))
def test_a_use_case_checks_access(name: str) -> None:
    assert checks_access(PREFIX + name)


def test_functions_of_the_same_name_are_distinguished() -> None:
    """`_prepare` of one module checks access and `_prepare` of another does not: names are resolved by imports."""
    assert checks_access(PREFIX + "catalog.roots._prepare")
    assert not checks_access(PREFIX + "settling.transact._prepare")


def test_every_operation_of_a_transaction_checks_access() -> None:
    """`transact` finds them in a table. Each is prepared by a function that checks access."""
    begins = [preparer.begin for preparer in FORMATS.operations.values()]
    # The argument of `independent` is in the closure of the function that it returns.
    prepares = [begin.__closure__[0].cell_contents if begin.__closure__ else begin for begin in begins]
    assert len(prepares) >= 8
    assert [each for each in prepares if not checks_access(f"{each.__module__}.{each.__qualname__}")] == []
