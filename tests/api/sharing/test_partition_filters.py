"""A partition filter of a share holds for everything that its recipients read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from moorage.core.shares import Partition, PartitionValue
from tests.api.sharing.logs import FEED, cdc, commit, mapped_metadata
from tests.api.sharing.provider import DELTA, Provider, Recipient, at, equal, error_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, add, metadata, remove, statistics

EUROPE = ("de", "fr")


def like(name: str, pattern: str) -> Partition:
    return (PartitionValue(name=name, op="LIKE", value=pattern),)


def in_country(country: str | None, day: str = "2024-01-01") -> dict[str, Any]:
    return {"partitionValues": {"country": country, "day": day}}


@pytest.fixture
async def world(provider: Provider) -> Provider:
    """Files of several countries in three versions, one of which changes rows."""
    log = provider.log()
    described = metadata(
        {"id": "long", "country": "string", "day": "date"}, partitions=["country", "day"], configuration=FEED
    )
    first = [add(name, size=1, stats=statistics(5), **in_country(name)) for name in ("de", "fr", "us")]
    commit(log, PROTOCOL, described, *first, add("none", size=1, **in_country(None)))
    commit(log, add("us2", size=50, **in_country("us")), add("de2", size=10, **in_country("de", "2024-01-02")))
    commit(
        log,
        remove("de", size=1, **in_country("de")),
        remove("us", size=1, **in_country("us")),
        *[cdc(f"_change_data/{name}", **in_country(name)) for name in ("de", "us")],
    )
    return provider


def countries(lines: list[dict[str, Any]]) -> list[str | None]:
    values = []
    for line in lines:
        for kind in ("file", "add", "remove", "cdf"):
            if kind in line:
                found = line[kind]
                action = next(iter(found["deltaSingleAction"].values())) if "deltaSingleAction" in found else found
                values.append(action["partitionValues"]["country"])
    return sorted(values, key=str)


async def test_a_filter_holds_on_every_route(world: Provider, recipient: Recipient) -> None:
    await world.offer(partitions=(equal(country="de"), equal(country="fr")))
    for headers in ({}, DELTA):

        async def read(verb: str, path: str, body: Any = None, headers: Any = headers) -> list[dict[str, Any]]:
            content = None if body is None else json.dumps(body).encode()
            return lines_of(await recipient.send(verb, f"{at('t')}{path}", headers=headers, content=content))

        assert countries(await read("POST", "/query", {})) == ["de", "fr"]
        assert countries(await read("POST", "/query", {"version": 1})) == ["de", "de", "fr"]
        assert countries(await read("POST", "/query", {"predicateHints": ["country = 'us'"]})) == []
        assert countries(await read("POST", "/query", {"limitHint": 100})) == ["de", "fr"]
        assert countries(await read("POST", "/query", {"maxFiles": 1000})) == ["de", "fr"]
        assert countries(await read("POST", "/query", {"startingVersion": 0})) == ["de", "de", "de", "fr"]
        assert countries(await read("GET", "/changes?startingVersion=0")) == ["de", "de", "de", "fr"]
        for lines in (await read("GET", "/metadata"), await read("POST", "/query", {})):
            stated = lines[1]["metaData"]
            assert (stated["size"], stated["numFiles"]) == (11, 2)


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ((equal(country=None),), [None]),
        ((equal(country="us", day="2024-01-01"),), ["us"]),
        ((equal(country="de", day="2024-01-01"),), []),
        ((equal(COUNTRY="fr"),), ["fr"]),
        ((equal(day="2024-1-1"),), []),
        ((like("country", "%"),), ["de", "fr", "us"]),
        ((like("country", "_r"),), ["fr"]),
        ((like("country", "f%"), equal(country="us")), ["fr", "us"]),
        ((like("country", "F%"),), []),
        ((like("country", r"\%"),), []),
        ((like("day", "2024-01-02"),), ["de"]),
    ],
)
async def test_a_recipient_reads_the_partitions_that_its_share_admits(
    world: Provider, recipient: Recipient, partitions: tuple[Partition, ...], expected: list[str | None]
) -> None:
    await world.offer(partitions=partitions)
    assert countries(lines_of(await recipient.query())) == expected


async def test_values_are_compared_by_their_type(provider: Provider, recipient: Recipient) -> None:
    described = metadata({"country": "string", "n": "integer"}, partitions=["country", "n"])
    files = [add(text, partitionValues={"country": text, "n": text}) for text in ("1", "01", "11")]
    commit(provider.log(), PROTOCOL, described, *files)
    await provider.offer(partitions=(equal(n="1"),))
    assert countries(lines_of(await recipient.query())) == ["01", "1"]


async def test_a_filter_uses_the_physical_name_of_a_mapped_column(provider: Provider, recipient: Recipient) -> None:
    described = mapped_metadata({"id": "long", "country": "string"}, partitions=["country"])
    files = [add(name, partitionValues={"col-country": name}) for name in ("de", "us")]
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    commit(provider.log(), protocol, described, *files)
    await provider.offer(partitions=(equal(country="de"),))
    lines = lines_of(await recipient.post(f"{at('t')}/query", headers=DELTA))
    assert [line["file"]["deltaSingleAction"]["add"]["partitionValues"] for line in lines[2:]] == [
        {"col-country": "de"}
    ]


async def test_a_filter_by_a_column_that_is_gone_shares_nothing(world: Provider, recipient: Recipient) -> None:
    await world.offer(partitions=(equal(country="de"),))
    log = world.log()
    log.commits = [[], [], []]
    commit(log, metadata({"id": "long"}), add("all", partitionValues={}))
    for answer in (await recipient.query(), await recipient.get(f"{at('t')}/metadata")):
        assert "country" in error_of(answer, 400, "UNSUPPORTED_OPERATION")


async def test_a_removed_file_without_its_partition_is_not_told(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    described = metadata({"id": "long", "country": "string"}, partitions=["country"], configuration=FEED)
    commit(log, PROTOCOL, described, add("de", partitionValues={"country": "de"}))
    commit(log, remove("de", size=1))
    await provider.offer(partitions=(equal(country="de"),))
    error_of(await recipient.query(startingVersion=0), 400, "UNSUPPORTED_OPERATION")
    error_of(await recipient.get(f"{at('t')}/changes", params={"startingVersion": 0}), 400)
    assert countries(lines_of(await recipient.query(startingVersion=0, endingVersion=0))) == ["de"]


async def test_a_file_from_before_the_partition_column_is_not_in_its_null_partition(
    provider: Provider, recipient: Recipient
) -> None:
    log = provider.log()
    commit(log, PROTOCOL, metadata({"id": "long", "country": "string"}, configuration=FEED), add("all"))
    described = metadata({"id": "long", "country": "string"}, partitions=["country"], configuration=FEED)
    commit(
        log,
        described,
        remove("all", size=1, partitionValues={}),
        add("none", partitionValues={"country": None}),
        add("de", partitionValues={"country": "de"}),
    )
    await provider.offer(partitions=(equal(country=None),))
    for answer in (
        await recipient.query(startingVersion=1),
        await recipient.get(f"{at('t')}/changes", params={"startingVersion": 1}),
    ):
        assert [next(iter(line)) for line in lines_of(answer)[2:]] == ["add"]
        assert countries(lines_of(answer)) == [None]
