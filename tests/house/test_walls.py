"""The import rules must fail on a forbidden import: a contract that never breaks protects nothing."""

import pytest
from grimp import ImportGraph

from scripts.walls import Walls, offence, parse_plan

GROUPS = ["ports: ledger.port, http"]
ROOMS = [
    "core:",
    "ledger: core",
    "usecases: core, ledger.port",
    "usecases.delta: core, usecases, +ports",
    "usecases.lance: core, +ports",
    "api.*: core, usecases",
    "http: core",
]
OUTSIDE = ["core: msgspec", "ledger: msgspec asyncpg"]


def judge(importer: str, imported: str) -> str | None:
    return offence(importer, imported, parse_plan(ROOMS, parse_plan(GROUPS)), parse_plan(OUTSIDE))


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("core.names", "core.errors"),
        ("core.names", ":unicodedata"),
        ("core.names", ":msgspec"),
        ("ledger.postgres.store", ":asyncpg"),
        ("usecases.tables", "ledger.port"),
        ("usecases.tables", ":starlette"),
        ("usecases.tables", "moorage"),
        ("api.console.routes", "usecases.tables"),
        ("api.console.routes", "api.console.bodies"),
        ("usecases.delta.commits", "ledger.port"),
        ("usecases.delta.commits", "usecases.tables"),
    ],
)
def test_an_allowed_import_passes(importer: str, imported: str) -> None:
    assert judge(importer, imported) is None


@pytest.mark.parametrize(
    ("importer", "imported", "message"),
    [
        ("core.names", "ledger.port", "core may not import ledger.port: core.names does"),
        ("core.names", ":httpx", "core may not use httpx: core.names imports it"),
        (
            "usecases.tables",
            "ledger.sqlite.store",
            "usecases may not import ledger.sqlite.store: usecases.tables does",
        ),
        (
            "usecases.tables",
            "ledger.portable",
            "usecases may not import ledger.portable: usecases.tables does",
        ),
        ("usecases.tables", "http.calls", "usecases may not import http.calls: usecases.tables does"),
        (
            "api.unity.routes",
            "api.console.bodies",
            "api.unity may not import api.console.bodies: api.unity.routes does",
        ),
        (
            "usecases.lance.versions",
            "usecases.delta.commits",
            "usecases.lance may not import usecases.delta.commits: usecases.lance.versions does",
        ),
        (
            "usecases.tables",
            "usecases.delta.commits",
            "usecases may not import usecases.delta.commits: usecases.tables does",
        ),
        ("attic", "core.names", "attic has no room in the plan, so it may import nothing (here: core.names)"),
    ],
)
def test_a_forbidden_import_is_named(importer: str, imported: str, message: str) -> None:
    assert judge(importer, imported) == message


@pytest.mark.parametrize(("imported", "kept"), [("moorage.core.ids", True), ("moorage.usecases", False)])
def test_one_forbidden_import_breaks_the_contract(imported: str, *, kept: bool) -> None:
    graph = ImportGraph()
    graph.add_import(importer="moorage.core.names", imported=imported)
    walls = Walls("walls", {"root_packages": ["moorage"]}, {"groups": GROUPS, "rooms": ROOMS, "outside": OUTSIDE})
    assert walls.check(graph, verbose=False).kept is kept
