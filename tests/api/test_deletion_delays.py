"""A vacuum waits until nothing can be used any more that any server has handed out."""

from __future__ import annotations

from msgspec.structs import force_setattr, replace

from moorage import fresh
from moorage.core.securables import Doc, TableDoc
from moorage.testing import builders as make
from moorage.usecases.upkeep.lifetimes import KEY_MS, deletion_delay_ms, record_lifetime
from tests.api.house import House

MINUTE_MS = 60 * 1000
DAY_MS = 24 * 60 * MINUTE_MS


async def delay_ms(house: House, location: str = "file:///data/t") -> int:
    table = make.table(
        house.ledger.root, fresh.securable_id(), doc=Doc(location=location, table=TableDoc(format="delta"))
    )
    await make.add(house.ledger, table)
    return await deletion_delay_ms(house.ports, (await house.ledger.lineage(table.id)).chain[-1])


def impatient(house: House) -> None:
    force_setattr(house.ports, "min_deletion_delay_ms", 0)
    force_setattr(house.ports, "share_url_lifetime_ms", MINUTE_MS)


async def test_the_setting_applies_if_nothing_is_valid_for_longer(house: House) -> None:
    assert await delay_ms(house) == house.ports.min_deletion_delay_ms
    assert house.ports.min_deletion_delay_ms > KEY_MS


async def test_the_longest_urls_of_all_servers_are_waited_for(house: House) -> None:
    impatient(house)
    await record_lifetime(replace(house.ports, share_url_lifetime_ms=3 * DAY_MS))
    await record_lifetime(house.ports)
    assert await delay_ms(house) == 3 * DAY_MS


async def test_a_server_that_ended_long_ago_is_not_waited_for(house: House) -> None:
    impatient(house)
    await record_lifetime(replace(house.ports, share_url_lifetime_ms=3 * DAY_MS))
    house.clock.advance(3 * DAY_MS)
    assert await delay_ms(house) == 3 * DAY_MS, "it may have handed out a URL after its last note"
    house.clock.advance(3 * DAY_MS)
    assert await delay_ms(house) == MINUTE_MS


async def test_the_keys_of_an_object_store_are_waited_for(house: House) -> None:
    impatient(house)
    assert await delay_ms(house, "s3://lake/t") == KEY_MS
