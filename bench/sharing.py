"""Delta Sharing: CPU per request, the first byte, memory, and what long answers cost other requests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
import psutil

from bench.load import Server, serving
from bench.report import Row
from bench.snapshots import commit, write_table
from moorage.core.entries import Create
from moorage.core.ids import SecurableId
from moorage.core.securables import Kind
from moorage.core.shares import ObjectDetails, to_doc
from moorage.ledger.sqlite import SqliteLedger
from moorage.testing import builders as make
from moorage.testing import delta_writer as write

UNITY = "/api/2.1/unity-catalog"
SMALL = 1_000
NAMES, PAGE = 10_000, 100
FEW, MANY = "few", "many"
DELTA = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}


class Shared:
    """A server with a share of three tables: 1,000 and 100,000 files, and a managed one that commits are made to."""

    def __init__(self, server: Server, external: Path) -> None:
        self.server = server
        self.http = httpx.Client(base_url=server.url, trust_env=False, timeout=120)
        self._external = external

    def build(self) -> Shared:
        self.send("POST", f"{UNITY}/catalogs", {"name": "lake"})
        self.send("POST", f"{UNITY}/schemas", {"name": "sea", "catalog_name": "lake"})
        for name in ("small", "large"):
            location = f"file://{self._external}/{name}"
            table = {"name": name, "catalog_name": "lake", "schema_name": "sea", "table_type": "EXTERNAL"}
            self.send("POST", f"{UNITY}/tables", {**table, "data_source_format": "DELTA", "storage_location": location})
        self.managed = Managed(self)
        self.send("POST", f"{UNITY}/shares", {"name": "fish"})
        recipient = self.send("POST", f"{UNITY}/recipients", {"name": "ann"})
        for share in ("fish", FEW, MANY):
            changes = {"changes": [{"principal": "ann", "add": ["SELECT"]}]}
            self.send("PATCH", f"{UNITY}/shares/{share}/permissions", changes)
        updates = [
            {"action": "ADD", "data_object": {"name": f"lake.sea.{name}", "data_object_type": "TABLE"}}
            for name in ("small", "large", "managed")
        ]
        self.send("PATCH", f"{UNITY}/shares/fish", {"updates": updates})
        profile = self.http.get(recipient["activation_url"]).json()
        self.http.headers["authorization"] = f"Bearer {profile['bearerToken']}"
        return self

    def send(self, verb: str, path: str, body: Any) -> Any:
        answer = self.http.request(verb, path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def metadata(self, table: str) -> int:
        return len(self.http.get(f"{at(table)}/metadata").raise_for_status().content)

    def query(self, table: str, headers: dict[str, str] | None = None, **body: Any) -> int:
        answer = self.http.post(f"{at(table)}/query", json=body, headers=headers).raise_for_status()
        return answer.content.count(b"\n") - 2

    def cpu_ms(self, times: int, work: Callable[[], Any]) -> float:
        work()
        work()
        before = self.server.cpu_seconds()
        for _ in range(times):
            work()
        return (self.server.cpu_seconds() - before) / times * 1e3


class Managed:
    """A managed table, to which this process commits one file after the other."""

    def __init__(self, shared: Shared) -> None:
        self._send = shared.send
        name = {"name": "managed", "catalog_name": "lake", "schema_name": "sea"}
        self._staged = self._send("POST", f"{UNITY}/staging-tables", name)
        self._folder = write.folder_of(self._staged["staging_location"])
        self._version = 0
        self._at_ms = now_ms = time.time_ns() // 1_000_000
        properties = write.configuration(self._staged["id"])
        info = write.commit_info(now_ms, "CREATE TABLE")
        files = [write.add(stats='{"numRecords":1}') for _ in range(SMALL)]
        write.write_first(self._folder, info, write.protocol(), write.metadata(properties), *files)
        stated = {"delta.lastUpdateVersion": "0", "delta.lastCommitTimestamp": str(now_ms), **properties}
        table = {**name, "table_type": "MANAGED", "data_source_format": "DELTA", "properties": stated}
        self._send("POST", f"{UNITY}/tables", {**table, "storage_location": self._staged["staging_location"]})

    def commit_ms(self) -> float:
        """Commit one file, and return how long the server took."""
        self._version += 1
        self._at_ms = max(self._at_ms + 1, time.time_ns() // 1_000_000)
        info = write.stage(self._folder, self._version, self._at_ms)
        body = {"table_id": self._staged["id"], "table_uri": self._staged["staging_location"], "commit_info": info}
        started = time.perf_counter()
        self._send("POST", f"{UNITY}/delta/commit", body)
        return (time.perf_counter() - started) * 1e3


def at(table: str) -> str:
    return f"/delta-sharing/shares/fish/schemas/sea/tables/{table}"


@contextmanager
def sharing(folder: Path) -> Iterator[Shared]:
    external = folder / "external"
    log = external / "small" / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_bytes(commit(0, SMALL))
    write_table(external / "large")
    asyncio.run(_fill(folder / "data"))
    with serving(folder / "data", "--external-folder", str(external)) as server:
        yield Shared(server, external).build()


async def _fill(data: Path) -> None:
    """Make a share of many tables, and one of few."""
    ledger = await SqliteLedger.open(data)
    catalog = make.catalog(ledger.root, "names")
    schema = make.namespace(catalog.id, "sea")
    shares = [make.create(Kind.SHARE, ledger.root, name) for name in (FEW, MANY)]
    tables = [make.table(schema.id, f"t{number:05}") for number in range(NAMES)]
    await make.add(ledger, catalog, schema, *shares)
    for start in range(0, NAMES, PAGE):
        await make.add(ledger, *tables[start : start + PAGE])
        for share in shares if start == 0 else shares[1:]:
            await make.add(ledger, *(_shared(share.id, table) for table in tables[start : start + PAGE]))
    await ledger.close()


def _shared(share: SecurableId, table: Create) -> Create:
    details = ObjectDetails(target=table.id, name=f"sea.{table.name}", type="TABLE")
    return make.create(Kind.SHARED_OBJECT, share, details.name, doc=to_doc(details))


def sharing_rows(folder: Path) -> list[Row]:
    with sharing(folder) as shared:
        day = json.dumps(
            {
                "op": "equal",
                "children": [
                    {"op": "column", "name": "day", "valueType": "date"},
                    {"op": "literal", "value": "2024-11-11", "valueType": "date"},
                ],
            }
        )
        rows = [
            _row("metadata, managed table", shared.cpu_ms(200, lambda: shared.metadata("managed")), 0.5),
            _row("metadata, external table of 1,000 files", shared.cpu_ms(200, lambda: shared.metadata("small"))),
            _row("query, managed table of 1,000 files", shared.cpu_ms(20, lambda: shared.query("managed")), 10),
            _row("query, external table of 1,000 files", shared.cpu_ms(20, lambda: shared.query("small")), 10),
            _row("query of 100,000 files", shared.cpu_ms(3, lambda: shared.query("large")), 700),
            _row("the same in delta format", shared.cpu_ms(3, lambda: shared.query("large", DELTA)), 700),
        ]
        selected = shared.query("large", jsonPredicateHints=day)
        hinted = shared.cpu_ms(20, lambda: shared.query("large", jsonPredicateHints=day))
        rows.append(_row(f"a hint that selects {selected:,} of 100,000 files", hinted, 15))
        first = median(_first_byte_ms(shared) for _ in range(5))
        rows.append(_row("first byte of 100,000 files", first, 50, "ms"))
        rows.append(asyncio.run(_sixteen_clients(shared)))
        rows += _listed(shared)
        rows += _beside_commits(shared)
        return rows


def _listed(shared: Shared) -> list[Row]:
    """The cost of a page: of few tables, and the last one of many."""

    def page(share: str, path: str, token: str | None = None) -> Any:
        given = {"maxResults": PAGE, **({} if token is None else {"pageToken": token})}
        return shared.http.get(f"/delta-sharing/shares/{share}/{path}", params=given).raise_for_status().json()

    rows = []
    for what, path in (("all tables of a share", "all-tables"), ("tables of a schema", "schemas/sea/tables")):
        token, last, count = None, None, 0
        while True:
            found = page(MANY, path, token)
            count += len(found["items"])
            last, token = token, found.get("nextPageToken")
            if token is None:
                break
        assert count == NAMES
        few = shared.cpu_ms(30, partial(page, FEW, path))
        many = shared.cpu_ms(30, partial(page, MANY, path, last))
        rows.append(_row(f"{PAGE} of {PAGE}, {what}", few))
        rows.append(_row(f"the last {PAGE} of {NAMES:,}", many, round(1.5 * few, 2)))
    return rows


def _row(what: str, found: float, limit: float | None = None, unit: str = "ms CPU") -> Row:
    if limit is None:
        return Row(what, f"{found:.2f} {unit}")
    return Row(what, f"{found:.2f} {unit}", f"≤ {limit:g} {unit}", found <= limit)


def _first_byte_ms(shared: Shared) -> float:
    started = time.perf_counter()
    with shared.http.stream("POST", f"{at('large')}/query", json={}) as answer:
        chunks = answer.iter_raw()
        next(chunks)
        took = (time.perf_counter() - started) * 1e3
        for _ in chunks:
            pass
    return took


async def _read_large(shared: Shared) -> int:
    """Read all files of the large table, and count the lines."""
    headers = dict(shared.http.headers)
    async with (
        httpx.AsyncClient(base_url=shared.server.url, trust_env=False, timeout=300, headers=headers) as client,
        client.stream("POST", f"{at('large')}/query", json={}) as answer,
    ):
        lines = 0
        async for chunk in answer.aiter_raw():
            lines += chunk.count(b"\n")
        return lines - 2


async def _sixteen_clients(shared: Shared) -> Row:
    process = psutil.Process(shared.server.pid)
    peak = 0
    reading = asyncio.gather(*(_read_large(shared) for _ in range(16)))
    while not reading.done():
        peak = max(peak, process.memory_info().rss)
        await asyncio.sleep(0.05)
    complete = set(await reading) == {100_000}
    megabytes = peak / 1e6
    what = "16 clients read 100,000 files at once" + ("" if complete else ", NOT ALL COMPLETE")
    return Row(what, f"{megabytes:.0f} MB", "< 600 MB", complete and megabytes < 600)


def _read_on(url: str, token: str) -> None:
    """Read the large table again and again, in a process of its own, until it is killed."""
    headers = {"authorization": token}
    with httpx.Client(base_url=url, trust_env=False, timeout=300, headers=headers) as client:
        while True:
            with client.stream("POST", f"{at('large')}/query", json={}) as answer:
                for _ in answer.iter_raw():
                    pass


def _compute_on() -> None:
    """Use a core until killed, without a request."""
    while True:
        pass


def _beside_commits(shared: Shared) -> list[Row]:
    def p99_ms() -> float:
        return quantiles([shared.managed.commit_ms() for _ in range(300)], n=100)[98]

    arguments = (shared.server.url, shared.http.headers["authorization"])
    p99_ms()
    alone = p99_ms()
    with _processes(_compute_on):
        beside_others = p99_ms()
    with _processes(_read_on, *arguments):
        time.sleep(3)
        beside = p99_ms()
    return [
        Row("p99 of a Delta commit alone", f"{alone:.1f} ms"),
        Row("the same beside four processes that only compute", f"{beside_others:.1f} ms"),
        Row("the same beside four reads of 100,000 files", f"{beside:.1f} ms", "≤ 3 ×", beside <= 3 * alone),
    ]


@contextmanager
def _processes(work: Callable[..., None], *arguments: str) -> Iterator[None]:
    """Four processes that do this work."""
    started = [get_context("spawn").Process(target=work, args=arguments, daemon=True) for _ in range(4)]
    for process in started:
        process.start()
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.join()


if __name__ == "__main__":
    import tempfile

    from bench.report import show

    with tempfile.TemporaryDirectory() as name:
        show("Delta Sharing over HTTP", sharing_rows(Path(name)))
