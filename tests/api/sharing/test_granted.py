"""What a recipient finds in its shares, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moorage.core.errors import InvalidInput, NamespaceNotFound, NotFound, SecurableNotFound, TableNotFound
from moorage.core.ids import SecurableId
from moorage.core.recipients import Recipient
from moorage.core.securables import Kind
from moorage.core.shares import ObjectDetails, to_doc
from moorage.ledger.postgres import PostgresLedger
from moorage.testing import builders as make
from moorage.usecases.ports import Ports
from moorage.usecases.sharing import granted
from tests.api.house import House, open_house


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    ledger = None
    if request.param == "postgres":
        ledger = await PostgresLedger.open(request.getfixturevalue("database_url"))
    async with open_house(tmp_path / "data", ledger=ledger) as house:
        yield house


@pytest.fixture
def ports(house: House) -> Ports:
    return house.ports


def shared(share: SecurableId, name: str, target: SecurableId, **given: Any) -> Any:
    details = ObjectDetails(target=target, name=name, type="SCHEMA" if name.endswith("*") else "TABLE", **given)
    return make.create(Kind.SHARED_OBJECT, share, name, doc=to_doc(details))


class Shop:
    """A catalog with two schemas, and a share with single tables, a whole schema, and another share."""

    def __init__(self, house: House) -> None:
        root = house.ledger.root
        self.catalog = make.catalog(root, "lake")
        self.sea = make.namespace(self.catalog.id, "sea")
        self.bay = make.namespace(self.catalog.id, "bay")
        self.tables = [make.table(self.sea.id, f"t{n}") for n in range(5)]
        self.whole = [make.table(self.bay.id, f"w{n}") for n in range(5)]
        self.share = make.create(Kind.SHARE, root, "Fish")
        self.other = make.create(Kind.SHARE, root, "other")
        self.recipient = Recipient(id="r", name="r", shares=frozenset({self.share.id}))

    async def build(self, house: House) -> Shop:
        objects = [shared(self.share.id, f"S{n % 2}.t{n}", table.id) for n, table in enumerate(self.tables)]
        objects.append(shared(self.share.id, "s0x.*", self.bay.id))
        objects.append(shared(self.other.id, "secret.t", self.tables[0].id))
        made = [self.catalog, self.sea, self.bay, *self.tables, *self.whole, self.share, self.other, *objects]
        await make.add(house.ledger, *made)
        return self


@pytest.fixture
async def shop(house: House) -> Shop:
    return await Shop(house).build(house)


async def pages(read: Any, field: str, limit: int) -> list[Any]:
    found: list[Any] = []
    token = None
    while True:
        page = await read(token=token, limit=limit)
        items = getattr(page, field)
        assert len(items) <= limit
        found += items
        token = page.next_token
        if token is None:
            return found


ALL = ["S0.t0", "S0.t2", "S0.t4", *(f"s0x.w{n}" for n in range(5)), "S1.t1", "S1.t3"]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 500])
async def test_every_table_is_on_exactly_one_page(ports: Ports, shop: Shop, limit: int) -> None:
    async def read(**given: Any) -> Any:
        return await granted.list_all_tables(ports, shop.recipient, "fish", **given)

    tables = await pages(read, "tables", limit)
    assert [f"{table.schema}.{table.name}" for table in tables] == ALL
    assert {table.id for table in tables} == {table.id for table in (*shop.tables, *shop.whole)}
    assert {(table.share, table.share_id) for table in tables} == {("Fish", shop.share.id)}


@pytest.mark.parametrize("limit", [1, 2, 500])
async def test_schemas_and_their_tables_are_listed_in_pages(ports: Ports, shop: Shop, limit: int) -> None:
    async def schemas(**given: Any) -> Any:
        return await granted.list_schemas(ports, shop.recipient, "FISH", **given)

    async def tables(schema: str) -> list[str]:
        async def read(**given: Any) -> Any:
            return await granted.list_tables(ports, shop.recipient, "FISH", schema, **given)

        return [table.name for table in await pages(read, "tables", limit)]

    assert await pages(schemas, "schemas", limit) == ["S0", "s0x", "S1"]
    assert await tables("s0") == ["t0", "t2", "t4"]
    assert await tables("S0X") == [f"w{n}" for n in range(5)]
    assert await tables("s1") == ["t1", "t3"]
    with pytest.raises(NamespaceNotFound):
        await tables("s")


async def test_a_large_schema_is_skipped_when_schemas_are_listed(house: House, ports: Ports, shop: Shop) -> None:
    many = [shared(shop.share.id, f"s00.t{n}", shop.tables[0].id) for n in range(450)]
    await make.add(house.ledger, *many)
    page = await granted.list_schemas(ports, shop.recipient, "fish", token=None, limit=10)
    assert page.schemas == ("S0", "s00", "s0x", "S1")


async def test_a_page_of_zero_items_continues_where_it_began(ports: Ports, shop: Shop) -> None:
    async def shares(**given: Any) -> Any:
        return (await granted.list_shares(ports, shop.recipient, **given)), "shares"

    async def schemas(**given: Any) -> Any:
        return (await granted.list_schemas(ports, shop.recipient, "fish", **given)), "schemas"

    async def tables(**given: Any) -> Any:
        return (await granted.list_all_tables(ports, shop.recipient, "fish", **given)), "tables"

    for read in (shares, schemas, tables):
        none, field = await read(token=None, limit=0)
        assert getattr(none, field) == ()
        assert await read(token=none.next_token, limit=500) == await read(token=None, limit=500)


async def test_a_token_continues_its_own_list_only(ports: Ports, shop: Shop) -> None:
    token = (await granted.list_all_tables(ports, shop.recipient, "fish", token=None, limit=1)).next_token
    both = msgspec.structs.replace(shop.recipient, shares=frozenset({shop.share.id, shop.other.id}))
    someone = msgspec.structs.replace(shop.recipient, id="other")
    for wrong in (
        granted.list_schemas(ports, shop.recipient, "fish", token=token, limit=1),
        granted.list_tables(ports, shop.recipient, "fish", "s0", token=token, limit=1),
        granted.list_all_tables(ports, both, "other", token=token, limit=1),
        granted.list_all_tables(ports, someone, "fish", token=token, limit=1),
        granted.list_shares(ports, shop.recipient, token="garbage", limit=1),
    ):
        with pytest.raises(InvalidInput, match="pageToken"):
            await wrong


async def test_only_granted_shares_are_visible(house: House, ports: Ports, shop: Shop) -> None:
    page = await granted.list_shares(ports, shop.recipient, token=None, limit=10)
    assert [share.name for share in page.shares] == ["Fish"]
    both = msgspec.structs.replace(shop.recipient, shares=frozenset({shop.share.id, shop.other.id}))
    assert [
        share.name for share in await pages(lambda **given: granted.list_shares(ports, both, **given), "shares", 1)
    ] == ["Fish", "other"]
    messages = set()
    for name in ("other", "absent"):
        for asked in (
            granted.find_share(ports, shop.recipient, name),
            granted.list_schemas(ports, shop.recipient, name, token=None, limit=1),
            granted.list_tables(ports, shop.recipient, name, "secret", token=None, limit=1),
            granted.list_all_tables(ports, shop.recipient, name, token=None, limit=1),
            granted.find_table(ports, shop.recipient, name, "secret", "t"),
        ):
            with pytest.raises(SecurableNotFound) as error:
                await asked
            messages.add(error.value.message.replace(name, ""))
    assert len(messages) == 1, "the errors of an existing and an absent share are the same"
    await make.add(house.ledger, make.drop(shop.share.id))
    assert (await granted.list_shares(ports, shop.recipient, token=None, limit=10)).shares == ()
    with pytest.raises(SecurableNotFound):
        await granted.find_table(ports, shop.recipient, "fish", "s0", "t0")


async def test_a_table_is_found_by_its_shared_name_in_any_case(ports: Ports, shop: Shop) -> None:
    found = await granted.find_table(ports, shop.recipient, "FISH", "s1", "T3")
    assert (found.share, found.schema, found.name, found.id) == ("Fish", "S1", "t3", shop.tables[3].id)
    assert [part.name for part in found.chain] == ["lake", "sea", "t3"]
    found = await granted.find_table(ports, shop.recipient, "fish", "S0x", "W3")
    assert (found.schema, found.name, found.id) == ("s0x", "w3", shop.whole[3].id)
    for text in ("s0.t1", "s0x.w9", "s0x.*", "s0.*", "bay.w0", "sea.t0", "."):
        schema, name = text.split(".")
        with pytest.raises(TableNotFound):
            await granted.find_table(ports, shop.recipient, "fish", schema, name)


async def test_a_renamed_table_stays_shared_and_a_dropped_one_does_not(house: House, ports: Ports, shop: Shop) -> None:
    await make.add(house.ledger, make.rename(shop.tables[0].id, shop.sea.id, "new"))
    assert (await granted.find_table(ports, shop.recipient, "fish", "s0", "t0")).id == shop.tables[0].id
    await make.add(house.ledger, make.drop(shop.tables[2].id), make.drop(shop.whole[1].id))
    page = await granted.list_all_tables(ports, shop.recipient, "fish", token=None, limit=50)
    assert [f"{table.schema}.{table.name}" for table in page.tables] == [
        name for name in ALL if name not in ("S0.t2", "s0x.w1")
    ]
    with pytest.raises(TableNotFound):
        await granted.find_table(ports, shop.recipient, "fish", "s0", "t2")
    await make.add(house.ledger, make.drop(shop.bay.id))
    with pytest.raises(NotFound):
        await granted.find_table(ports, shop.recipient, "fish", "s0x", "w0")
    assert (await granted.list_tables(ports, shop.recipient, "fish", "s0x", token=None, limit=5)).tables == ()


async def test_a_table_created_later_appears_in_a_shared_schema(house: House, ports: Ports, shop: Shop) -> None:
    await make.add(house.ledger, make.table(shop.bay.id, "later"))
    assert (await granted.find_table(ports, shop.recipient, "fish", "s0x", "later")).name == "later"
    page = await granted.list_tables(ports, shop.recipient, "fish", "s0x", token=None, limit=1)
    assert [table.name for table in page.tables] == ["later"]


async def test_no_page_mixes_two_states_of_a_share(house: House, ports: Ports, shop: Shop) -> None:
    """Schemas are swapped in one entry, again and again: a page shows either all of one set or all of the other."""
    share = make.create(Kind.SHARE, house.ledger.root, "swap")
    recipient = Recipient(id="r", name="r", shares=frozenset({share.id}))

    def objects(names: str) -> list[Any]:
        # More than a batch in each schema, so that a page needs several reads.
        return [
            shared(share.id, f"{name}.t{n:03}", shop.tables[0].id) for name in names for n in range(granted._BATCH + 1)
        ]

    present = objects("ac")
    await make.add(house.ledger, share, *present)
    stop = asyncio.Event()

    async def swap() -> None:
        nonlocal present
        names = ["bd", "ac"]
        for turn in range(30):
            following = objects(names[turn % 2])
            await make.add(
                house.ledger,
                *[make.drop(each.id, hold_ms=0) for each in present],
                *following,
                make.update(share.id),
            )
            present = following
            await asyncio.sleep(0)
        stop.set()

    swapping = asyncio.create_task(swap())
    seen = set()
    while not stop.is_set():
        page = await granted.list_schemas(ports, recipient, "swap", token=None, limit=10)
        seen.add(page.schemas)
        await asyncio.sleep(0)
    await swapping
    assert seen <= {("a", "c"), ("b", "d")}
