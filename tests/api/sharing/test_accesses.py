"""The audit of recipients, on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.core.credentials import Credential, CredentialScheme
from moorage.core.errors import MoorageError, Unauthenticated, Unavailable
from moorage.core.ids import SecurableId
from moorage.core.recipients import Recipient, token_text
from moorage.ledger.port import Ledger
from moorage.ledger.postgres import PostgresLedger
from moorage.usecases.identity.audit import store_accesses
from moorage.usecases.sharing import recipients
from moorage.usecases.sharing.accesses import record_access
from moorage.usecases.sharing.recipients import authenticate
from tests.api.house import House, done, open_house, refused
from tests.api.sharing.provider import Provider, at, files_of, lines_of
from tests.api.unity.unity import Unity
from tests.snapshots.log_builder import PROTOCOL, add, metadata


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    ledger = None
    if request.param == "postgres":
        ledger = await PostgresLedger.open(request.getfixturevalue("database_url"))
    async with open_house(tmp_path / "data", ledger=ledger) as house:
        yield house


@pytest.fixture
async def ann(house: House) -> Recipient:
    made = done(await Unity(house.console.http).post("/recipients", {"name": "ann"}))
    return Recipient(id=made["id"], name="ann", address="192.0.2.7")


async def listed(house: House, **query: Any) -> list[dict[str, Any]]:
    await store_accesses(house.ports)
    return list(done(await house.console.get("/recipients/ann/accesses", **query))["items"])


async def test_equal_requests_are_counted_together(house: House, ann: Recipient) -> None:
    start = house.clock()
    for _ in range(3):
        record_access(house.ports, ann, "query", share="fish", version=7, files=2, size=100)
        house.clock.advance(10)
    record_access(house.ports, ann, "list_shares")
    first, second = await listed(house)
    assert first == {
        "operation": "query",
        "share": "fish",
        "table": None,
        "table_id": None,
        "version": 7,
        "address": "192.0.2.7",
        "refusal": None,
        "requests": 3,
        "files": 6,
        "bytes": 300,
        "first_at_ms": start,
        "last_at_ms": start + 20,
    }
    assert (second["operation"], second["requests"]) == ("list_shares", 1)


async def test_accesses_are_listed_in_pages_and_from_a_moment_on(house: House, ann: Recipient) -> None:
    for n in range(5):
        record_access(house.ports, ann, f"o{n}")
        await store_accesses(house.ports)
        house.clock.advance(1000)
    names, token = [], ""
    while True:
        page = done(await house.console.get("/recipients/ann/accesses", max_results=2, page_token=token))
        names += [each["operation"] for each in page["items"]]
        token = page["next_page_token"]
        if token is None:
            break
    assert names == [f"o{n}" for n in range(5)]
    assert [each["operation"] for each in await listed(house, since_ms=house.clock() - 2000)] == ["o3", "o4"]


async def test_what_cannot_be_stored_is_kept_and_stored_later(house: House, ann: Recipient) -> None:
    class Broken:
        root = house.ledger.root

        async def store_report(self, *given: Any, **rest: Any) -> None:
            raise Unavailable("the database is not reachable")

    ledger: Ledger = house.ports.ledger
    record_access(house.ports, ann, "query", files=1)
    msgspec.structs.force_setattr(house.ports, "ledger", Broken())
    with pytest.raises(Unavailable):
        await store_accesses(house.ports)
    record_access(house.ports, ann, "query", files=1)
    msgspec.structs.force_setattr(house.ports, "ledger", ledger)
    [line] = await listed(house)
    assert (line["requests"], line["files"]) == (2, 2)


async def test_a_request_that_cannot_be_recorded_is_refused(
    house: House, ann: Recipient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipients, "MAX_PENDING", 1)
    record_access(house.ports, ann, "query")
    with pytest.raises(Unavailable, match="cannot be recorded"):
        await authenticate(house.ports, None, "")
    await store_accesses(house.ports)
    with pytest.raises(Unauthenticated):
        await authenticate(house.ports, None, "")


async def test_refused_tokens_of_a_recipient_are_recorded(house: House, ann: Recipient) -> None:
    unity = Unity(house.console.http)
    made = done(await unity.get("/recipients/ann"))
    path = made["activation_url"].partition(unity.prefix)[2]
    good = done(await unity.get(path))["bearerToken"]
    networks = {"ip_access_list": {"allowed_ip_addresses": ["192.0.2.0/24"]}}
    done(await unity.patch("/recipients/ann", networks))
    for token, address in (
        (token_text(SecurableId(ann.id), "A" * 43), "192.0.2.1"),
        (good, "198.51.100.1"),
        (token_text(SecurableId("0" * 8 + ann.id[8:]), "A" * 43), "192.0.2.2"),
    ):
        with pytest.raises(MoorageError):
            await authenticate(house.ports, Credential(CredentialScheme.RECIPIENT, token), address)
    found = [(each["operation"], each["address"], each["refusal"]) for each in await listed(house)]
    assert found == [
        ("authenticate", "192.0.2.1", "the token is not valid"),
        ("authenticate", "198.51.100.1", "the address is not allowed"),
    ]


async def test_an_unknown_recipient_has_no_accesses(house: House) -> None:
    refused(await house.console.get("/recipients/absent/accesses"), 404, "OBJECT_NOT_FOUND")


async def test_what_a_client_reads_is_recorded_with_files_and_bytes(provider: Provider) -> None:
    folder = provider.folder / "t"
    provider.log("t").commit(PROTOCOL, metadata(), *[add(f"{n}.parquet", size=100) for n in range(3)])
    for n in range(3):
        (folder / f"{n}.parquet").write_bytes(bytes(100))
    table = await provider.offer("t")
    recipient = provider.recipient
    await recipient.get("/shares")
    await recipient.get("/shares/fish/all-tables")
    await recipient.get(f"{at('t')}/metadata")
    lines = lines_of(await recipient.query())
    url = files_of(lines)[0]["url"]
    assert len((await recipient.http.get(url)).content) == 100
    assert len((await recipient.http.get(url, headers={"range": "bytes=0-9"})).content) == 10
    await store_accesses(provider.ports)
    found = done(await provider.house.console.get("/recipients/r/accesses"))["items"]
    assert [
        (each["operation"], each["share"], each["table"], each["version"], each["files"], each["bytes"])
        for each in found
    ] == [
        ("listRecipientShares", None, None, None, 0, 0),
        ("listAllRecipientTables", "fish", None, None, 0, 0),
        ("getSharedTableMetadata", "Fish", "sea.t", 0, 0, 0),
        ("querySharedTable", "Fish", "sea.t", 0, 3, 300),
        ("readSharedFile", "Fish", "sea.t", None, 2, 110),
    ]
    assert {each["address"] for each in found} == {"127.0.0.1"}
    assert {each["table_id"] for each in found} == {None, table}


async def test_refused_requests_of_a_recipient_are_recorded(provider: Provider) -> None:
    for path in ("/shares/secret", f"{at('t')}/metadata"):
        assert (await provider.recipient.get(path)).status_code == 404
    await store_accesses(provider.ports)
    found = done(await provider.house.console.get("/recipients/r/accesses"))["items"]
    assert [(each["operation"], each["requests"]) for each in found if each["refusal"]] == [
        ("getRecipientShare", 1),
        ("getSharedTableMetadata", 1),
    ]
    assert "secret" in found[0]["refusal"] or "secret" in found[1]["refusal"]
