"""Server processes: killed, restarted, and two on one database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from moorage.testing.postgres import PostgresServer
from moorage.testing.server import ServerProcess
from tests.api.house import Console, at_once, console_at, done, refused, until


@pytest.fixture(scope="module")
def two_servers(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers on one database, for all tests here: each uses names of its own."""
    folder, url = tmp_path_factory.mktemp("servers"), postgres.new_database("two_servers")
    with ExitStack() as stack:
        first, second = (stack.enter_context(ServerProcess(folder / name, database=url)) for name in ("one", "two"))
        yield first, second
    postgres.drop_database(url)


@pytest.fixture
async def two_consoles(two_servers: tuple[ServerProcess, ServerProcess]) -> AsyncIterator[tuple[Console, Console]]:
    async with console_at(two_servers[0].url) as first, console_at(two_servers[1].url) as second:
        yield first, second


def outcome(answer: httpx.Response) -> str:
    return str(answer.status_code) if answer.is_success else str(answer.json()["error"]["code"])


async def test_a_first_answer_survives_a_kill_and_a_restart(server: ServerProcess, remote: Console) -> None:
    made = done(await remote.post("/catalogs", {"name": "a"}, key="k"), 201)
    refused(await remote.delete("/catalogs/b", key="k2"), 404, "CATALOG_NOT_FOUND")
    token = None
    for name in ("b", "c"):
        await remote.make(name)
        token = done(await remote.get("/catalogs", max_results=1))["next_page_token"]
    server.restart()
    async with console_at(server.url) as again:
        assert done(await again.post("/catalogs", {"name": "a"}, key="k"), 201) == made
        refused(await again.delete("/catalogs/b", key="k2"), 404, "CATALOG_NOT_FOUND")
        refused(await again.post("/catalogs", {"name": "x"}, key="k"), 422, "KEY_REUSED", "Idempotency-Key")
        assert await again.names("/catalogs", page_token=token) == ["b", "c"]
        assert await again.seq() == 4


async def test_after_a_kill_answered_requests_are_durable_and_the_others_can_be_retried(
    server: ServerProcess, remote: Console
) -> None:
    """Sixteen clients write while the server is killed. Each then retries its open request."""
    made: dict[str, str] = {}
    left: list[str] = []

    async def write(client: int) -> None:
        for n in range(10_000):
            name = f"c{client}-{n}"
            try:
                made[name] = done(await remote.post("/catalogs", {"name": name}, key=name), 201)["id"]
            except httpx.TransportError:
                left.append(name)
                return

    writers = [asyncio.create_task(write(client)) for client in range(16)]

    async def some_are_made() -> bool:
        return len(made) >= 200

    await until(some_are_made)
    server.kill()
    await asyncio.gather(*writers)
    assert len(left) == 16
    server.start()
    async with console_at(server.url) as again:
        for name, id in made.items():
            assert done(await again.get(f"/catalogs/{name}"))["id"] == id
        for name in left:
            first = done(await again.post("/catalogs", {"name": name}, key=name), 201)
            assert done(await again.post("/catalogs", {"name": name}, key=name), 201) == first
        assert await again.seq() == 1 + len(made) + len(left)


async def test_a_stopped_server_answers_what_it_has_accepted(server: ServerProcess, remote: Console) -> None:
    asking = [asyncio.create_task(remote.post("/catalogs", {"name": f"c{n}"})) for n in range(50)]
    await asyncio.sleep(0.02)
    code = await asyncio.to_thread(server.stop)
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert code == 0, server.words()
    answered = [answer for answer in answers if isinstance(answer, httpx.Response)]
    assert {answer.status_code for answer in answered} <= {201, 503}
    server.start()
    async with console_at(server.url) as again:
        names = set(await again.names("/catalogs"))
        assert {answer.json()["name"] for answer in answered if answer.status_code == 201} <= names


async def test_a_second_server_on_the_same_folder_refuses_to_start(server: ServerProcess) -> None:
    second = ServerProcess(server.data)
    second.log = server.log.with_name("second.log")
    with pytest.raises(AssertionError, match="another Moorage"), second:
        pass


async def test_of_twelve_clients_that_create_one_name_one_succeeds(remote: Console) -> None:
    for n in range(10):
        seq = await remote.seq()
        answers = await at_once(*[remote.post("/catalogs", {"name": f"prize{n}"}) for _ in range(12)])
        assert sorted(map(outcome, answers)) == ["201"] + ["NAME_TAKEN"] * 11
        assert await remote.seq() == seq + 1


@pytest.mark.postgres
async def test_of_twelve_clients_of_two_servers_that_create_one_name_one_succeeds(
    two_consoles: tuple[Console, Console],
) -> None:
    for n in range(10):
        seq = await two_consoles[0].seq()
        answers = await at_once(*[two_consoles[k % 2].post("/catalogs", {"name": f"one{n}"}) for k in range(12)])
        assert sorted(map(outcome, answers)) == ["201"] + ["NAME_TAKEN"] * 11
        assert await two_consoles[1].seq() == seq + 1


@pytest.mark.postgres
async def test_one_key_used_on_two_servers_concurrently_has_one_effect_and_one_answer(
    two_consoles: tuple[Console, Console],
) -> None:
    first, second = two_consoles
    await first.make("lake")
    seq = await first.seq()
    for n in range(60):
        ask = ("/catalogs/lake/namespaces", {"path": [f"n{n}"]})
        answers = await at_once(*[console.post(*ask, key=f"lake{n}") for console in (first, second) * 2])
        assert {answer.status_code for answer in answers} == {201}, [answer.text for answer in answers]
        assert len({answer.text for answer in answers}) == 1
    assert await first.seq() == await second.seq() == seq + 60


@pytest.mark.postgres
async def test_of_two_requests_under_one_key_on_two_servers_one_succeeds(
    two_consoles: tuple[Console, Console],
) -> None:
    seq = await two_consoles[0].seq()
    for n in range(30):
        answers = await at_once(
            *[
                console.post("/catalogs", {"name": f"two{n}-{k}"}, key=f"two{n}")
                for k, console in enumerate(two_consoles)
            ]
        )
        assert sorted(map(outcome, answers)) == ["201", "KEY_REUSED"]
    assert await two_consoles[1].seq() == seq + 30


@pytest.mark.postgres
async def test_a_refusal_recorded_by_one_server_is_returned_by_the_other(two_consoles: tuple[Console, Console]) -> None:
    first, second = two_consoles
    refused(await first.delete("/catalogs/gone", key="gone"), 404, "CATALOG_NOT_FOUND")
    await second.make("gone")
    refused(await second.delete("/catalogs/gone", key="gone"), 404, "CATALOG_NOT_FOUND")
    done(await second.delete("/catalogs/gone", key="gone again"))


@pytest.mark.postgres
async def test_concurrent_updates_of_one_object_on_two_servers_all_succeed(
    two_consoles: tuple[Console, Console],
) -> None:
    await two_consoles[0].make("hot")
    answers = await at_once(
        *[two_consoles[n % 2].patch("/catalogs/hot", {"set_properties": {f"p{n}": "x"}}) for n in range(64)]
    )
    assert list(map(outcome, answers)) == ["200"] * 64
    assert len(done(await two_consoles[1].get("/catalogs/hot"))["properties"]) == 64


@pytest.mark.postgres
async def test_a_page_token_of_one_server_is_valid_on_the_other(two_consoles: tuple[Console, Console]) -> None:
    first, second = two_consoles
    for path in (("pages",), ("pages", "a"), ("pages", "b"), ("pages", "c")):
        await first.make(*path)
    token = done(await first.get("/catalogs/pages/namespaces", max_results=1))["next_page_token"]
    assert await second.names("/catalogs/pages/namespaces", page_token=token) == ["b", "c"]


@pytest.mark.postgres
async def test_a_long_poll_returns_with_an_entry_of_another_server(two_consoles: tuple[Console, Console]) -> None:
    first, second = two_consoles
    seq = await first.seq()
    poll = asyncio.create_task(first.get("/feed", after=seq, wait_seconds=20))
    await asyncio.sleep(0.1)
    await second.make("news")
    async with asyncio.timeout(10):
        assert done(await poll)["last_seq"] == seq + 1


@pytest.mark.postgres
async def test_a_server_without_its_database_is_unavailable_and_recovers(
    tmp_path: Path, own_postgres: PostgresServer
) -> None:
    url = own_postgres.new_database("lost")
    with ServerProcess(tmp_path / "data", database=url) as server:
        async with console_at(server.url) as console:
            await console.make("a")
            await asyncio.to_thread(own_postgres.stop)
            for answer in (
                await console.http.get("/readyz"),
                await console.get("/catalogs"),
                await console.post("/catalogs", {"name": "b"}, key="k"),
            ):
                error = refused(answer, 503, "UNAVAILABLE")
                assert error["advice"] == "same_request"
            assert (await console.http.head("/readyz")).status_code == 503
            assert (await console.http.get("/healthz")).status_code == 200
            await asyncio.to_thread(own_postgres.start)

            async def is_ready() -> bool:
                return (await console.http.get("/readyz")).status_code == 200

            await until(is_ready)
            done(await console.post("/catalogs", {"name": "b"}, key="k"), 201)
            assert await console.names("/catalogs") == ["a", "b"]
