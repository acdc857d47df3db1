"""Sections F and G: published versions, and the absence of limits on unpublished ones."""

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


async def test_case_89_a_published_version_of_a_table_without_commits_is_refused(client: DeltaClient) -> None:
    table = await client.make()
    for version in (0, 1):
        refuses(await client.commit(table, published=version), 400, *INVALID)


async def test_case_90_a_published_version_without_a_commit_cannot_have_metadata(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1)
    stated: dict[str, Any] = {"metadata": {"description": "c"}}
    if client.family == "v1":
        stated = {"actions": [{"action": "set-table-comment", "comment": "c"}]}
    refuses(await client.commit(table, published=1, **stated), 400, *INVALID)
    assert await client.announced(table) == ([1], 1)


async def test_case_91_and_92_a_version_that_a_client_published_is_no_longer_announced(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2, 3)
    ok(await client.commit(table, published=2))
    assert await client.announced(table) == ([3], 3)
    ok(await client.commit(table, published=3))
    assert await client.announced(table) == ([], 3)


@pytest.mark.parametrize("family", ["spec", "preview"])
async def test_case_91_a_reader_that_listed_before_the_report_receives_all_later_versions(
    spec: DeltaClient, house: House, family: str
) -> None:
    """It requests the versions after the last one that it found. Other readers do not need them."""
    client = DeltaClient(spec.http, family)
    table = await client.make()
    await ratified(client, table, 1)
    listed = write.published(table.folder)
    await ratified(client, table, 2, 3)
    ok(await client.commit(table, table.stage(4), published=3))
    assert await client.announced(table, start_version=listed[-1] + 1) == ([2, 3, 4], 4)
    assert await client.announced(table) == ([4], 4)
    house.clock.advance(HOUR_MS + 1)
    assert await client.announced(table, start_version=listed[-1] + 1) == ([4], 4)


async def test_case_93_a_published_version_that_was_never_ratified_is_refused(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1)
    refuses(await client.commit(table, published=2), 400, *INVALID)


async def test_case_94_and_95_a_published_version_may_be_lower_than_before_but_not_negative(
    client: DeltaClient,
) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2)
    ok(await client.commit(table, published=2))
    for version in (2, 1, 0):
        ok(await client.commit(table, published=version))
    refuses(await client.commit(table, published=-1), 400, *INVALID)
    assert await client.announced(table) == ([], 2)


async def test_case_96_a_commit_and_a_published_version_may_be_one_request(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2)
    ok(await client.commit(table, table.stage(3), published=2))
    assert await client.announced(table) == ([3], 3)


@pytest.mark.parametrize("version", [1, 2, 3, 10**12])
async def test_case_97_to_99_a_wrong_published_version_never_fails_a_commit(client: DeltaClient, version: int) -> None:
    """The client lists the folder for its report. It may name a version that another writer won, or a deleted one."""
    table = await client.make()
    ok(await client.commit(table, table.stage(1), published=version))
    assert await client.announced(table) == ([1], 1)


async def test_case_99_a_published_version_without_a_commit_is_refused_if_a_file_is_missing(
    client: DeltaClient,
) -> None:
    table = await client.make()
    await ratified(client, table, 1, publish=False)
    await ratified(client, table, 2)
    refuses(await client.commit(table, published=2), 400, *INVALID, "00000000000000000001.json")
    assert await client.announced(table) == ([1, 2], 2)


async def test_case_100_after_all_versions_were_published_only_a_new_commit_is_announced(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2)
    ok(await client.commit(table, published=2))
    await ratified(client, table, 3)
    assert await client.announced(table) == ([3], 3)


async def test_case_101_to_104_the_number_of_unpublished_commits_is_not_limited(client: DeltaClient) -> None:
    table = await client.make()
    await ratified(client, table, *range(1, 41), publish=False)
    assert await client.announced(table) == (list(range(1, 41)), 40)


async def test_case_105_a_long_property_is_stored(client: DeltaClient) -> None:
    table = await client.make(properties={"story": "x" * 10_000}) if client.family != "v1" else await client.make()
    long = write.metadata(write.configuration(table.id, story="y" * 100_000))
    ok(await client.commit(table, table.stage(1, long, write.add())))
    assert ok(await client.get_table())["properties"]["story"] == "y" * 100_000


async def test_a_staged_file_cannot_be_used_again_while_its_version_is_announced(
    client: DeltaClient, house: House
) -> None:
    """In the protocol the file name contains the version, but not in the specification's own samples."""
    table = await client.make()
    first = table.stage(1, name="one.json")
    ok(await client.commit(table, first))
    ok(await client.commit(table, table.stage(2, name="two.json")))
    ok(await client.commit(table, first))
    for name, version in (("one.json", 1), ("two.json", 2)):
        refuses(
            await client.commit(table, table.stage(3, name=name)),
            400,
            *INVALID,
            f"is already used by version {version}",
        )
    await publish_due(house.ports)
    ok(await client.commit(table, published=2))
    refuses(await client.commit(table, table.stage(3, name="one.json")), 400, *INVALID, "is already used by version 1")
    house.clock.advance(HOUR_MS + 1)
    ok(await client.commit(table, table.stage(3, name="one.json")))


# --- altered files, and publishing by the server -------------------------------------------------


async def _alarms(client: DeltaClient) -> float:
    families = text_string_to_metric_families((await client.http.get("/metrics")).text)
    return next(family.samples[0].value for family in families if family.name == "moorage_alarms")


async def test_a_published_file_with_other_bytes_raises_an_alarm_and_is_set_aside(
    client: DeltaClient, house: House, caplog: pytest.LogCaptureFixture
) -> None:
    table = await client.make()
    info = table.stage(1)
    ok(await client.commit(table, info))
    other, log = write.lines(write.commit_info(1)), table.folder / "_delta_log"
    (log / f"{1:020}.json").write_bytes(other)
    with caplog.at_level(logging.ERROR):
        refuses(await client.commit(table, published=1), 400, *INVALID, "is not the commit that was ratified")
    assert "is not the commit that was ratified" in caplog.text
    assert await _alarms(client) == 1
    ok(await client.commit(table, table.stage(2), published=1))
    assert await client.announced(table) == ([1, 2], 2)
    with caplog.at_level(logging.ERROR):
        assert await publish_due(house.ports) == 2
    assert f"{log.name}/{1:020}.json of table {table.id} was never ratified" in caplog.text
    staged = log / "_staged_commits"
    assert (log / f"{1:020}.json").read_bytes() == (staged / info["file_name"]).read_bytes()
    assert other in [file.read_bytes() for file in staged.glob(f"{1:020}.*.json")]
    ok(await client.commit(table, published=2))
    assert await client.announced(table) == ([], 2)


async def test_a_version_that_the_server_published_is_announced_until_a_client_reports_it_or_an_hour_has_passed(
    client: DeltaClient, house: House
) -> None:
    table = await client.make()
    await ratified(client, table, 1, 2, 3, publish=False)
    assert await publish_due(house.ports) == 3
    assert write.published(table.folder) == [0, 1, 2, 3]
    assert await client.announced(table) == ([1, 2, 3], 3)
    ok(await client.commit(table, published=1))
    assert await client.announced(table) == ([2, 3], 3)
    house.clock.advance(HOUR_MS + 1)
    assert await client.announced(table) == ([], 3)
    await ratified(client, table, 4, publish=False)
    assert await client.announced(table) == ([4], 4)
    assert len(list((table.folder / "_delta_log/_staged_commits").iterdir())) == 4


async def test_the_server_publishes_the_ratified_bytes_even_if_the_staged_file_was_altered(
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


async def test_old_versions_of_a_table_whose_clients_report_nothing_are_not_announced(
    client: DeltaClient, house: House
) -> None:
    """The server finds the first recent version by binary search."""
    table = await client.make()
    await ratified(client, table, *range(1, 20), publish=False)
    await publish_due(house.ports)
    house.clock.advance(2 * HOUR_MS)
    for version in range(20, 25):
        ok(await client.commit(table, table.stage(version)))
    await publish_due(house.ports)
    assert await client.announced(table) == (list(range(20, 25)), 24)
