"""A request under an idempotency key can be retried at any time: it is carried out once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from msgspec.structs import force_setattr

from moorage.core.entries import Draft
from moorage.core.errors import Busy, OutcomeUnknown, Unavailable
from moorage.ledger.port import Ledger
from moorage.usecases.upkeep.purge import purge_due
from tests.api.house import Console, House, at_once, done, refused, to_namespace

DAY_MS = 24 * 60 * 60 * 1000
Ask = tuple[str, str, Any]


async def prepared(console: Console) -> dict[str, Ask]:
    """A catalog, and one request of each kind that changes something in it."""
    for path in (("lake",), ("lake", "sea"), ("lake", "old"), ("lake", "dropped"), ("spare",), ("spent",)):
        await console.make(*path)
    gone = done(await console.delete(to_namespace("lake", "dropped")))
    return {
        "createCatalog": ("POST", "/catalogs", {"name": "new", "comment": "c"}),
        "createNamespace": ("POST", "/catalogs/lake/namespaces", {"path": ["new"]}),
        "updateCatalog": ("PATCH", "/catalogs/lake", {"set_properties": {"a": "b"}}),
        "updateNamespace": ("PATCH", to_namespace("lake", "sea"), {"comment": "c", "revision": 1}),
        "renameCatalog": ("POST", "/catalogs/spare:rename", {"new_name": "renamed"}),
        "renameNamespace": ("POST", f"{to_namespace('lake', 'old')}:rename", {"new_name": "renamed"}),
        "dropCatalog": ("DELETE", "/catalogs/spent", None),
        "undrop": ("POST", "/undrop", {"kind": "namespace", "id": gone["id"]}),
        "transact": (
            "POST",
            "/transactions",
            {"operations": [{"op": "create_namespace", "path": ["lake", f"t{n}"]} for n in range(3)]},
        ),
        "createJob": ("POST", "/jobs", {"kind": "audit"}),
    }


async def test_a_repeated_request_returns_its_first_answer_and_changes_nothing(console: Console) -> None:
    for operation, (verb, path, body) in (await prepared(console)).items():
        first = await console.ask(verb, path, body, key=operation)
        assert first.is_success, f"{operation}: {first.text}"
        seq = await console.seq()
        for _ in range(3):
            again = await console.ask(verb, path, body, key=operation)
            assert (again.status_code, again.json()) == (first.status_code, first.json()), operation
        assert await console.seq() == seq, operation


async def test_a_repeated_creation_returns_the_object_as_it_was_created(house: House) -> None:
    console = house.console
    body = {"name": "lake", "properties": {"a": "1"}}
    first = done(await console.post("/catalogs", body, key="k"), 201)
    done(await console.patch("/catalogs/lake", {"set_properties": {"a": "2"}}))
    done(await console.post("/catalogs/lake:rename", {"new_name": "sea"}))
    assert done(await console.post("/catalogs", body, key="k"), 201) == first
    done(await console.delete("/catalogs/sea"))
    assert done(await console.post("/catalogs", body, key="k"), 201) == first
    assert await console.names("/catalogs") == []


async def test_a_repeated_drop_of_a_purged_object_is_refused(house: House) -> None:
    force_setattr(house.ports, "hold_ms", 0)
    await house.console.make("lake")
    done(await house.console.delete("/catalogs/lake", key="k"))
    assert await purge_due(house.ports) == 1
    refused(await house.console.delete("/catalogs/lake", key="k"), 409, "ALREADY_PURGED")


@pytest.mark.parametrize(
    ("ask", "status", "code"),
    [
        (("DELETE", "/catalogs/later", None), 404, "CATALOG_NOT_FOUND"),
        (("POST", "/catalogs/later/namespaces", {"path": ["x"]}), 404, "CATALOG_NOT_FOUND"),
        (("POST", "/catalogs", {"name": "lake"}), 409, "NAME_TAKEN"),
        (("DELETE", "/catalogs/lake", None), 409, "NOT_EMPTY"),
        (("PATCH", "/catalogs/lake", {"comment": "c", "revision": 7}), 409, "REVISION_MOVED"),
        (
            ("POST", "/transactions", {"operations": [{"op": "drop", "kind": "catalog", "path": ["later"]}]}),
            404,
            "CATALOG_NOT_FOUND",
        ),
        (
            ("PATCH", "/catalogs/lake", {"set_properties": {"a": "1"}, "remove_properties": ["a"]}),
            400,
            "INVALID_INPUT",
        ),
    ],
)
async def test_a_repeated_request_gets_its_first_refusal_even_if_it_could_succeed_now(
    console: Console, ask: Ask, status: int, code: str
) -> None:
    await console.make("lake")
    await console.make("lake", "sea")
    verb, path, body = ask
    first = await console.ask(verb, path, body, key="k")
    assert (first.status_code, first.json()["error"]["code"]) == (status, code)
    for n in range(6):
        done(await console.patch("/catalogs/lake", {"comment": f"{n}"}))
    done(await console.delete(to_namespace("lake", "sea")))
    await console.make("later")
    if code == "NAME_TAKEN":
        done(await console.delete("/catalogs/lake"))
    seq = await console.seq()
    again = await console.ask(verb, path, body, key="k")
    assert again.status_code == status
    assert without_request(again) == without_request(first)
    assert await console.seq() == seq


def without_request(answer: httpx.Response) -> dict[str, Any]:
    error = answer.json()["error"]
    return {name: value for name, value in error.items() if name != "request_id"}


async def test_a_key_is_bound_to_one_request(console: Console) -> None:
    done(await console.post("/catalogs", {"name": "a"}, key="k"), 201)
    seq = await console.seq()
    others: list[Ask] = [
        ("POST", "/catalogs", {"name": "b"}),
        ("POST", "/catalogs", {"name": "a", "comment": "c"}),
        ("POST", "/catalogs/a/namespaces", {"path": ["a"]}),
        ("PATCH", "/catalogs/a", {"comment": "c"}),
        ("DELETE", "/catalogs/a", None),
        ("POST", "/jobs", {"kind": "audit"}),
    ]
    for verb, path, body in others:
        refused(await console.ask(verb, path, body, key="k"), 422, "KEY_REUSED", "Idempotency-Key")
    refused(await console.delete("/catalogs/a", key="k", cascade="true"), 422, "KEY_REUSED", "Idempotency-Key")
    assert await console.seq() == seq


async def test_a_refused_request_uses_its_key_too(console: Console) -> None:
    refused(await console.delete("/catalogs/a", key="k"), 404, "CATALOG_NOT_FOUND")
    refused(await console.delete("/catalogs/b", key="k"), 422, "KEY_REUSED", "Idempotency-Key")


async def test_a_request_with_equivalent_json_is_the_same_request(console: Console) -> None:
    first = await console.http.post(
        "/api/moorage/v1/catalogs",
        content=b'{"name":"a","properties":{"x":"1","y":"2"}}',
        headers={"idempotency-key": "k"},
    )
    again = await console.http.post(
        "/api/moorage/v1/catalogs",
        content=b' {"properties": {"y": "2", "x": "1"}, "name": "\\u0061"}\n',
        headers={"idempotency-key": "k", "x-request-id": "another"},
    )
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()


async def test_keys_belong_to_their_caller(console: Console) -> None:
    done(await console.post("/catalogs", {"name": "a"}, key="k", caller="ann"), 201)
    done(await console.post("/catalogs", {"name": "b"}, key="k", caller="bob"), 201)
    refused(await console.post("/catalogs", {"name": "a"}, key="k", caller="carol"), 409, "NAME_TAKEN", "name")
    done(await console.post("/catalogs", {"name": "a"}, key="k", caller="ann"), 201)
    assert await console.names("/catalogs") == ["a", "b"]


async def test_a_caller_without_access_gets_no_earlier_answers(house: House) -> None:
    console = house.console
    asks = await prepared(console)
    for operation, (verb, path, body) in asks.items():
        assert (await console.ask(verb, path, body, key=operation, caller="ann")).is_success
    house.access.locked_out.add("ann")
    for operation, (verb, path, body) in asks.items():
        refused(await console.ask(verb, path, body, key=operation, caller="ann"), 403, "FORBIDDEN")
    house.access.locked_out.clear()
    for operation, (verb, path, body) in asks.items():
        assert (await console.ask(verb, path, body, key=operation, caller="ann")).is_success


async def test_a_request_that_was_forbidden_may_succeed_later_under_its_key(house: House) -> None:
    house.access.locked_out.add("ann")
    refused(await house.console.post("/catalogs", {"name": "a"}, key="k", caller="ann"), 403, "FORBIDDEN")
    house.access.locked_out.clear()
    done(await house.console.post("/catalogs", {"name": "a"}, key="k", caller="ann"), 201)


class Faulty:
    """The real ledger, with appends that fail before or after they take effect."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.before: list[Exception] = []
        self.after: list[Exception] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    async def append(self, draft: Draft) -> Any:
        if self.before:
            raise self.before.pop()
        receipt = await self._ledger.append(draft)
        if self.after:
            raise self.after.pop()
        return receipt


@pytest.mark.parametrize(
    ("error", "status"), [(Unavailable("no"), 503), (Busy("no"), 503), (OutcomeUnknown("?"), 500), (OSError("?"), 500)]
)
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_request_that_failed_in_the_server_can_be_retried_under_its_key(
    house: House, error: Exception, status: int, moment: str
) -> None:
    faulty = Faulty(house.ledger)
    force_setattr(house.ports, "ledger", faulty)
    getattr(faulty, moment).append(error)
    assert (await house.console.post("/catalogs", {"name": "a"}, key="k")).status_code == status
    done(await house.console.post("/catalogs", {"name": "a"}, key="k"), 201)
    done(await house.console.post("/catalogs", {"name": "a"}, key="k"), 201)
    assert await house.console.names("/catalogs") == ["a"]


async def test_concurrent_duplicates_are_carried_out_once_and_get_the_same_answer(console: Console) -> None:
    for n in range(10):
        answers = await at_once(*[console.post("/catalogs", {"name": f"c{n}"}, key=f"k{n}") for _ in range(5)])
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.text for answer in answers}) == 1
    assert len(await console.names("/catalogs")) == 10


async def test_a_duplicate_waits_for_the_first_request(house: House) -> None:
    class Slow(Faulty):
        def __init__(self, ledger: Ledger) -> None:
            super().__init__(ledger)
            self.gate = asyncio.Event()
            self.both_append = asyncio.Event()
            self.appended = 0

        async def append(self, draft: Draft) -> Any:
            self.appended += 1
            if self.appended == 2:
                self.both_append.set()
            await self.gate.wait()
            return await super().append(draft)

    slow = Slow(house.ledger)
    force_setattr(house.ports, "ledger", slow)
    duplicates = [asyncio.create_task(house.console.post("/catalogs", {"name": "a"}, key="k")) for _ in range(2)]
    other = asyncio.create_task(house.console.post("/catalogs", {"name": "b"}, key="k2"))
    await slow.both_append.wait()
    await asyncio.sleep(0.02)
    assert slow.appended == 2  # one of the duplicates, and the request under another key
    slow.gate.set()
    first, second = [await duplicate for duplicate in duplicates]
    assert done(first, 201) == done(second, 201)
    done(await other, 201)
    assert slow.appended == 2


async def test_a_duplicate_is_carried_out_if_the_first_request_fails(house: House) -> None:
    faulty = Faulty(house.ledger)
    force_setattr(house.ports, "ledger", faulty)
    faulty.before.append(Unavailable("no"))
    answers = await at_once(*[house.console.post("/catalogs", {"name": "a"}, key="k") for _ in range(3)])
    assert sorted(answer.status_code for answer in answers) == [201, 201, 503]


async def test_a_key_expires_after_a_day(house: House) -> None:
    done(await house.console.post("/catalogs", {"name": "a"}, key="k"), 201)
    house.clock.advance(DAY_MS)
    done(await house.console.post("/catalogs", {"name": "a"}, key="k"), 201)
    house.clock.advance(1)
    refused(await house.console.post("/catalogs", {"name": "a"}, key="k"), 409, "NAME_TAKEN", "name")


@pytest.mark.parametrize("key", [b"", b"x" * 256, "ü".encode(), b"\xff"])
async def test_an_invalid_key_is_refused(console: Console, key: bytes) -> None:
    answer = await console.http.post(
        "/api/moorage/v1/catalogs", content=b'{"name":"a"}', headers={b"idempotency-key": key}
    )
    refused(answer, 400, "INVALID_INPUT", "Idempotency-Key")
    assert await console.names("/catalogs") == []


async def test_a_key_of_a_read_is_ignored(console: Console) -> None:
    await console.make("a")
    done(await console.ask("GET", "/catalogs/a", key="k"))
    await console.make("b")
    done(await console.ask("GET", "/catalogs", key="k"))
    done(await console.post("/catalogs", {"name": "c"}, key="k"), 201)
