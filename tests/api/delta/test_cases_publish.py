"""Sections F and G: what was published, and that there is no limit anybody meets."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from moorage.testing import delta_writer as write
from moorage.testing.builders import HOUR_MS
from moorage.usecases.upkeep.publish import publish_due
from tests.api.delta.cases import INVALID, refuses
from tests.api.delta.delta_client import DeltaClient, Staged, ok
from tests.api.house import House


async def ratified(client: DeltaClient, table: Staged, *versions: int, publish: bool = True) -> None:
    for version in versions:
        info = table.stage(version)
        ok(await client.commit(table, info))
        if publish:
            write.publish(table.folder, info)


async def test_case_89_a_table_without_commits_has_none_published(client: DeltaClient) -> None:
    table = await client.make()
    for version in (0, 1):
        refuses(await client.commit(table, published=version), 400, *INVALID)


async def test_case_90_a_claim_describes_nothing(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1)
    said: dict[str, Any] = {"metadata": {"description": "c"}}
    if client.family == "v1":
        said = {"actions": [{"action": "set-table-comment", "comment": "c"}]}
    refuses(await client.commit(table, published=1, **said), 400, *INVALID)
    assert await client.told(table) == ([1], 1)


async def test_case_91_and_92_what_was_published_leaves_the_list(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2, 3)
    ok(await client.commit(table, published=2))
    assert await client.told(table) == ([3], 3)
    ok(await client.commit(table, published=3))
    assert await client.told(table) == ([], 3)


@pytest.mark.parametrize("family", ["spec", "preview"])
async def test_case_91_a_reader_who_listed_before_the_claim_is_told_of_all_from_there_on(
    spec: DeltaClient, house: House, family: str
) -> None:
    """It asks from the version behind the last one that it found; others need not be told."""
    client = DeltaClient(spec.http, family)
    table = await client.make()
    await ratified(client, table, 1)
    listed = write.published(table.folder)
    await ratified(client, table, 2, 3)
    ok(await client.commit(table, table.stage(4), published=3))
    assert await client.told(table, start_version=listed[-1] + 1) == ([2, 3, 4], 4)
    assert await client.told(table) == ([4], 4)
    house.clock.advance(HOUR_MS + 1)
    assert await client.told(table, start_version=listed[-1] + 1) == ([4], 4)


async def test_case_93_nobody_published_what_was_never_ratified(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1)
    refuses(await client.commit(table, published=2), 400, *INVALID)


async def test_case_94_and_95_a_claim_may_be_old_but_not_absurd(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2)
    ok(await client.commit(table, published=2))
    for version in (2, 1, 0):
        ok(await client.commit(table, published=version))
    refuses(await client.commit(table, published=-1), 400, *INVALID)
    assert await client.told(table) == ([], 2)


async def test_case_96_a_commit_and_a_claim_are_one_request(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2)
    ok(await client.commit(table, table.stage(3), published=2))
    assert await client.told(table) == ([3], 3)


@pytest.mark.parametrize("claim", [1, 2, 3, 10**12])
async def test_case_97_to_99_a_claim_that_cannot_be_believed_never_fails_a_commit(
    client: DeltaClient, claim: int
) -> None:
    """The client lists its folder to make the claim: it may name what it has just lost, or what is no more."""
    table = await client.make()
    ok(await client.commit(table, table.stage(1), published=claim))
    assert await client.told(table) == ([1], 1)


async def test_case_99_a_claim_alone_is_refused_while_a_file_is_missing(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, publish=False)
    await ratified(client, table, 2)
    refuses(await client.commit(table, published=2), 400, *INVALID, "00000000000000000001.json")
    assert await client.told(table) == ([1, 2], 2)


async def test_case_100_a_commit_after_all_was_published_stands_alone(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2)
    ok(await client.commit(table, published=2))
    await ratified(client, table, 3)
    assert await client.told(table) == ([3], 3)


async def test_case_101_to_104_nobody_is_told_to_wait(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, *range(1, 41), publish=False)
    assert await client.told(table) == (list(range(1, 41)), 40)


async def test_case_105_a_long_property_is_kept(client: DeltaClient) -> None:
    table = await client.make(properties={"story": "x" * 10_000}) if client.family != "v1" else await client.make()
    long = write.metadata(write.configuration(table.id, story="y" * 100_000))
    ok(await client.commit(table, table.stage(1, long, write.add())))
    assert ok(await client.get_table())["properties"]["story"] == "y" * 100_000


async def test_a_staged_file_belongs_to_one_version_for_as_long_as_readers_are_sent_to_it(
    client: DeltaClient, house: House
) -> None:
    """The protocol has the version in its name; the specification's own samples do not."""
    table = await client.make()
    first = table.stage(1, name="one.json")
    ok(await client.commit(table, first))
    ok(await client.commit(table, table.stage(2, name="two.json")))
    ok(await client.commit(table, first))
    for name, version in (("one.json", 1), ("two.json", 2)):
        refuses(await client.commit(table, table.stage(3, name=name)), 400, *INVALID, f"is version {version} already")
    await publish_due(house.ports)
    ok(await client.commit(table, published=2))
    refuses(await client.commit(table, table.stage(3, name="one.json")), 400, *INVALID, "is version 1 already")
    house.clock.advance(HOUR_MS + 1)
    ok(await client.commit(table, table.stage(3, name="one.json")))


# --- other bytes, and the server's own publishing -------------------------------------------------


async def _alarms(client: DeltaClient) -> float:
    families = text_string_to_metric_families((await client.http.get("/metrics")).text)
    return next(family.samples[0].value for family in families if family.name == "moorage_alarms")


async def test_other_bytes_under_a_final_name_raise_an_alarm_and_are_set_aside(
    client: DeltaClient, house: House, caplog: pytest.LogCaptureFixture
) -> None:
    table = await client.make()
    info = table.stage(1)
    ok(await client.commit(table, info))
    other, log = write.lines(write.commit_info(1)), table.folder / "_delta_log"
    (log / f"{1:020}.json").write_bytes(other)
    with caplog.at_level(logging.ERROR):
        refuses(await client.commit(table, published=1), 400, *INVALID, "not what was ratified")
    assert "not what was ratified" in caplog.text
    assert await _alarms(client) == 1
    ok(await client.commit(table, table.stage(2), published=1))
    assert await client.told(table) == ([1, 2], 2)
    with caplog.at_level(logging.ERROR):
        assert await publish_due(house.ports) == 2
    assert f"{log.name}/{1:020}.json of table {table.id} was never ratified" in caplog.text
    staged = log / "_staged_commits"
    assert (log / f"{1:020}.json").read_bytes() == (staged / info["file_name"]).read_bytes()
    assert other in [file.read_bytes() for file in staged.glob(f"{1:020}.*.json")]
    ok(await client.commit(table, published=2))
    assert await client.told(table) == ([], 2)


async def test_what_the_server_published_is_told_until_somebody_says_so_or_an_hour_has_passed(
    client: DeltaClient, house: House
) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2, 3, publish=False)
    assert await publish_due(house.ports) == 3
    assert write.published(table.folder) == [0, 1, 2, 3]
    assert await client.told(table) == ([1, 2, 3], 3)
    ok(await client.commit(table, published=1))
    assert await client.told(table) == ([2, 3], 3)
    house.clock.advance(HOUR_MS + 1)
    assert await client.told(table) == ([], 3)
    await ratified(client, table, 4, publish=False)
    assert await client.told(table) == ([4], 4)
    assert len(list((table.folder / "_delta_log/_staged_commits").iterdir())) == 4


async def test_the_server_publishes_what_was_ratified_whatever_happened_to_the_staged_file(
    client: DeltaClient, house: House
) -> None:
    table = await client.make()
    info = table.stage(1)
    staged = table.folder / "_delta_log/_staged_commits" / info["file_name"]
    data = staged.read_bytes()
    ok(await client.commit(table, info))
    staged.write_bytes(b"something else")
    assert await publish_due(house.ports) == 1
    assert (table.folder / "_delta_log" / f"{1:020}.json").read_bytes() == data


async def test_a_table_whose_clients_never_claim_is_read_as_fast(client: DeltaClient, house: House) -> None:
    """Old versions are skipped by halving, not one by one."""
    table = await client.make()
    await ratified(client, table, *range(1, 20), publish=False)
    await publish_due(house.ports)
    house.clock.advance(2 * HOUR_MS)
    for version in range(20, 25):
        ok(await client.commit(table, table.stage(version)))
    await publish_due(house.ports)
    assert await client.told(table) == (list(range(20, 25)), 24)
