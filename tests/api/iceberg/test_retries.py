"""Every change with an idempotency key, retried after each way in which its response can be lost."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import msgspec
import pytest
from msgspec.structs import force_setattr

from moorage.api.iceberg.api import iceberg
from moorage.api.iceberg.bodies import EXAMPLE_SCHEMA
from moorage.api.iceberg.views import EXAMPLE_VERSION
from moorage.core.errors import KeyReused
from moorage.testing.raw_http import RawConnection
from moorage.testing.server import ServerProcess
from tests.api.house import Console, console_at, until
from tests.api.iceberg.lake import V1, Lake, refused, set_property, to_space, to_table
from tests.api.iceberg.test_commits import LostResponseLedger

SPACE = to_space("sea")
SCHEMA = {"schema": EXAMPLE_SCHEMA}
MISSING_FILE = "file:///nowhere/0.metadata.json"
TABLES = ("orders", "old", "spent", "leaving", "lost")
VIEWS = ("totals", "old_view", "spent_view", "lost_view")

Request = tuple[str, str, Any]


def named(name: str) -> dict[str, Any]:
    return {"namespace": ["sea"], "name": name}


def view_of(name: str) -> dict[str, Any]:
    return {"name": name, **SCHEMA, "view-version": EXAMPLE_VERSION, "properties": {}}


def requests(table_file: str = MISSING_FILE, view_file: str = MISSING_FILE) -> dict[str, Request]:
    """One request of each operation that changes something."""
    commit = {"requirements": [], "updates": [set_property("a")]}
    return {
        "createNamespace": ("POST", "/namespaces", {"namespace": ["sea", "new"]}),
        "dropNamespace": ("DELETE", to_space("sea", "empty"), None),
        "updateProperties": ("POST", f"{SPACE}/properties", {"updates": {"a": "1"}, "removals": ["b"]}),
        "createTable": ("POST", f"{SPACE}/tables", {"name": "made", **SCHEMA}),
        "updateTable": ("POST", to_table("orders", "sea"), commit),
        "commitTransaction": (
            "POST",
            "/transactions/commit",
            {"table-changes": [{**commit, "identifier": named("orders"), "updates": [set_property("b")]}]},
        ),
        "renameTable": ("POST", "/tables/rename", {"source": named("old"), "destination": named("renamed")}),
        "dropTable": ("DELETE", to_table("spent", "sea"), None),
        "unregisterTable": ("POST", f"{to_table('leaving', 'sea')}/unregister", None),
        "registerTable": ("POST", f"{SPACE}/register", {"name": "back", "metadata-location": table_file}),
        "createView": ("POST", f"{SPACE}/views", view_of("made_view")),
        "replaceView": ("POST", f"{SPACE}/views/totals", commit),
        "renameView": ("POST", "/views/rename", {"source": named("old_view"), "destination": named("renamed_view")}),
        "dropView": ("DELETE", f"{SPACE}/views/spent_view", None),
        "registerView": ("POST", f"{SPACE}/register-view", {"name": "back_view", "metadata-location": view_file}),
    }


async def furnish(lake: Lake) -> dict[str, Request]:
    """Create the objects that the requests name, and return the requests with the files of dropped objects."""
    await lake.create_space("sea")
    await lake.create_space("sea", "empty")
    tables = [(await lake.create(name, space=("sea",))).json() for name in TABLES]
    views = [(await lake.ask("POST", f"{SPACE}/views", view_of(name))).json() for name in VIEWS]
    for path in (to_table("lost", "sea"), f"{SPACE}/views/lost_view"):
        assert (await lake.ask("DELETE", path)).status_code == 204
    return requests(tables[-1]["metadata-location"], views[-1]["metadata-location"])


def content(answer: httpx.Response) -> tuple[Any, ...]:
    return answer.status_code, answer.content, answer.headers.get("etag")


def test_the_requests_cover_every_operation_that_accepts_a_key() -> None:
    assert set(requests()) == {route.operation for route in iceberg.routes if KeyReused in route.errors}


@pytest.mark.parametrize("operation", requests())
async def test_a_retry_of_a_successful_change_gets_the_same_response(lake: Lake, operation: str) -> None:
    verb, path, body = (await furnish(lake))[operation]
    key = str(uuid4())
    first = await lake.ask(verb, path, body, key=key)
    assert first.is_success, first.text
    seq, files = (await lake.house.ledger.position()).seq, lake.metadata_files()
    for _ in range(2):
        lake.house.ports.local.clear_caches()
        assert content(await lake.ask(verb, path, body, key=key)) == content(first)
    assert ((await lake.house.ledger.position()).seq, lake.metadata_files()) == (seq, files)


@pytest.mark.parametrize("operation", requests())
async def test_a_retry_of_a_refused_change_gets_the_same_refusal(lake: Lake, operation: str) -> None:
    verb, path, body = requests()[operation]
    key = str(uuid4())
    first = await lake.ask(verb, path, body, key=key)
    assert first.status_code == 404, first.text
    possible = await furnish(lake)
    assert content(await lake.ask(verb, path, body, key=key)) == content(first)
    assert (await lake.ask(*possible[operation])).is_success


@pytest.mark.parametrize("operation", requests())
async def test_a_change_whose_response_was_lost_is_made_once(lake: Lake, operation: str) -> None:
    verb, path, body = (await furnish(lake))[operation]
    key, working, seq = str(uuid4()), lake.house.ports.ledger, (await lake.house.ledger.position()).seq
    force_setattr(lake.house.ports, "ledger", LostResponseLedger(working))
    refused(await lake.ask(verb, path, body, key=key), 500, "CommitStateUnknownException")
    force_setattr(lake.house.ports, "ledger", working)
    answers = [content(await lake.ask(verb, path, body, key=key)) for _ in range(2)]
    assert answers[0] == answers[1]
    assert answers[0][0] in (200, 204)
    released = 1 if operation.startswith("register") else 0  # a separate entry releases the dropped object
    assert (await lake.house.ledger.position()).seq == seq + 1 + released


async def test_a_commit_whose_server_died_before_its_response_was_read_is_made_once(
    server: ServerProcess, remote: Console
) -> None:
    await remote.make("lake")
    path, key = f"{V1}/lake{to_table('orders', 'sea')}", str(uuid4())
    for where, made in (("/namespaces", {"namespace": ["sea"]}), (f"{SPACE}/tables", {"name": "orders", **SCHEMA})):
        (await remote.http.post(f"{V1}/lake{where}", json=made)).raise_for_status()
    body = msgspec.json.encode({"requirements": [], "updates": [set_property("a")]})
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\nidempotency-key: {key}\r\ncontent-length: {len(body)}\r\n\r\n"
    with RawConnection(server.port) as unread:
        unread.send(head.encode() + body)

        async def is_committed() -> bool:
            return len((await remote.http.get(path)).json()["metadata"]["metadata-log"]) == 1

        await until(is_committed)
        server.restart()
    async with console_at(server.url) as again:
        answer = await again.http.post(path, content=body, headers={"idempotency-key": key})
        assert (answer.status_code, answer.json()) == (200, (await again.http.get(path)).json())
        assert len(answer.json()["metadata"]["metadata-log"]) == 1
