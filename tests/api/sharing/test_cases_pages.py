"""Case P: pages, refreshed URLs, the last line, and asynchronous queries."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from moorage.core.entries import Update
from moorage.core.shares import ObjectDetails, to_doc
from moorage.testing import builders as make
from moorage.testing.builders import HOUR_MS
from tests.api.sharing.logs import FEED, commit, iso, time_of, write_history
from tests.api.sharing.provider import Line, Provider, Recipient, at, error_of, files_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, LogBuilder, add, metadata, statistics

ASKED = {"delta-sharing-capabilities": "includeendstreamaction=true"}


@pytest.fixture
def log(provider: Provider) -> LogBuilder:
    return provider.log()


@pytest.fixture
async def shared(provider: Provider, log: LogBuilder) -> Provider:
    files = [
        add(name, partitionValues={"p": str(number % 2)}, stats=statistics(id=(number, number, 0)))
        for number, name in enumerate("abcde")
    ]
    commit(log, PROTOCOL, metadata({"id": "long", "p": "integer"}, partitions=["p"], configuration=FEED), *files)
    for name in ("t", "u"):
        if name == "u":
            write_history(provider.log("u"))
        await provider.offer(name)
    return provider


def end_of(lines: list[Line]) -> Line:
    assert set(lines[-1]) == {"endStreamAction"}
    return dict(lines[-1]["endStreamAction"])


async def pages(recipient: Recipient, **body: Any) -> list[list[Line]]:
    found: list[list[Line]] = []
    token: dict[str, str] = {}
    while True:
        found.append(lines_of(await recipient.query(**body, **token)))
        if "nextPageToken" not in (end := end_of(found[-1])):
            return found
        token = {"pageToken": end["nextPageToken"]}


def ids(lines: list[Line]) -> list[str]:
    return [str(file["id"]) for file in files_of(lines)]


async def test_case_p1_and_p2_files_come_in_pages(shared: Provider, recipient: Recipient) -> None:
    whole = lines_of(await recipient.query())
    found = await pages(recipient, maxFiles=2)
    assert [len(files_of(page)) for page in found] == [2, 2, 1]
    assert all(page[:2] == whole[:2] for page in found)
    assert sorted(id for page in found for id in ids(page)) == sorted(ids(whole))
    assert end_of(found[0])["minUrlExpirationTimestamp"] == shared.ports.now_ms() + HOUR_MS
    assert [len(files_of(page)) for page in await pages(recipient, maxFiles=5)] == [5]


async def test_case_p3_pages_come_from_one_version(shared: Provider, recipient: Recipient, log: LogBuilder) -> None:
    before = set(ids(lines_of(await recipient.query())))
    first = lines_of(await recipient.query(maxFiles=2))
    commit(log, add("0", partitionValues={"p": "0"}), add("z", partitionValues={"p": "0"}))
    answer = await recipient.query(maxFiles=100, pageToken=end_of(first)["nextPageToken"])
    assert {*ids(first), *ids(lines_of(answer))} == before
    assert answer.headers["delta-table-version"] == "0"


async def test_case_p4_without_a_size_there_is_one_page(shared: Provider, recipient: Recipient) -> None:
    lines = lines_of(await recipient.query())
    assert (len(files_of(lines)), len(lines)) == (5, 7)


async def test_case_p5_a_page_token_is_bound_to_its_request(shared: Provider, recipient: Recipient) -> None:
    token = end_of(lines_of(await recipient.query(maxFiles=2)))["nextPageToken"]
    messages = [
        error_of(await recipient.query(maxFiles=2, pageToken="garbage"), 400),
        error_of(await recipient.query("u", maxFiles=2, pageToken=token), 400),
        error_of(await recipient.query(maxFiles=2, pageToken=token, predicateHints=["p = 1"]), 400),
    ]
    error_of(await recipient.query(maxFiles=2, pageToken=token[:-2] + "xx"), 400)
    assert (await recipient.query(maxFiles=1, pageToken=token)).status_code == 200
    await shared.change_recipient(shared.details(recipient, shared.share.id))
    shared.house.clock.advance(24 * HOUR_MS - 1)
    assert (await recipient.query(maxFiles=1, pageToken=token)).status_code == 200
    tokens = tuple(
        type(each)(**{**{f: getattr(each, f) for f in each.__struct_fields__}, "expires_at_ms": 2**50})
        for each in shared.details(recipient).tokens
    )
    await shared.change_recipient(shared.details(recipient, shared.share.id, tokens=tokens))
    shared.house.clock.advance(1)
    messages.append(error_of(await recipient.query(maxFiles=1, pageToken=token), 400))
    assert len(set(messages)) == 4


@pytest.mark.parametrize("given", [{"version": 1}, {"timestamp": iso(time_of(1))}], ids=["version", "timestamp"])
async def test_a_page_of_an_older_version_needs_the_history(
    provider: Provider, recipient: Recipient, given: dict[str, Any]
) -> None:
    write_history(provider.log())
    table = await provider.offer()
    shared = await provider.share_table("old.t", table, history=True)
    path = f"{at('t', 'old')}/query"
    token = end_of(lines_of(await recipient.post(path, {"maxFiles": 1, **given})))["nextPageToken"]
    assert (await recipient.post(path, {"pageToken": token, **given})).status_code == 200
    without = ObjectDetails(target=table, name="old.t", history=False)
    await make.add(provider.house.ledger, Update(id=shared, doc=to_doc(without)))
    assert "history" in error_of(await recipient.post(path, {"pageToken": token, **given}), 400)


@pytest.mark.parametrize("size", [0, -1, "x", 2**31, 2**70])
async def test_case_p6_impossible_sizes_are_refused(shared: Provider, recipient: Recipient, size: Any) -> None:
    error_of(await recipient.query(maxFiles=size), 400)
    error_of(await recipient.get(f"{at('t')}/changes", params={"startingVersion": 0, "maxFiles": size}), 400)


async def test_case_p7_changes_come_in_pages(shared: Provider, recipient: Recipient) -> None:
    async def changes(**params: Any) -> httpx.Response:
        return await recipient.get(f"{at('u')}/changes", params={"startingVersion": 0, "endingVersion": 2, **params})

    async def stream(**body: Any) -> httpx.Response:
        return await recipient.query("u", startingVersion=0, **body)

    for read in (changes, stream):
        whole = [line for line in lines_of(await read()) if "protocol" not in line and "metaData" not in line]
        found: list[Line] = []
        token: dict[str, str] = {}
        while True:
            answer = await read(maxFiles=1, **token)
            assert answer.headers["delta-table-version"] == "0"
            first, second, *lines, end = lines_of(answer)
            assert (set(first), set(second), len(lines)) == ({"protocol"}, {"metaData"}, 1)
            found += lines
            if "nextPageToken" not in end["endStreamAction"]:
                break
            token = {"pageToken": end["endStreamAction"]["nextPageToken"]}
        assert found == whole
        error_of(await read(pageToken="garbage"), 400)


async def test_case_p8_pages_of_the_selected_files(shared: Provider, recipient: Recipient) -> None:
    found = await pages(recipient, maxFiles=1, predicateHints=["p = 1"])
    assert [len(files_of(page)) for page in found] == [1, 1]
    limited = await pages(recipient, maxFiles=2, limitHint=25)
    assert [len(files_of(page)) for page in limited] == [2, 1]


async def test_case_p9_and_p10_urls_are_refreshed_for_the_same_version(
    shared: Provider, recipient: Recipient, log: LogBuilder
) -> None:
    before = lines_of(await recipient.query(includeRefreshToken=True))
    token = end_of(before)["refreshToken"]
    commit(log, add("z", partitionValues={"p": "0"}))
    shared.house.clock.advance(HOUR_MS)
    answer = await recipient.query(refreshToken=token, includeRefreshToken=True)
    after = lines_of(answer)
    assert ids(after) == ids(before)
    assert answer.headers["delta-table-version"] == "0"
    assert end_of(after)["refreshToken"]
    assert files_of(after)[0]["expirationTimestamp"] == files_of(before)[0]["expirationTimestamp"] + HOUR_MS
    assert len(ids(lines_of(await recipient.query()))) == 6


async def test_case_p11_a_refresh_token_is_bound_to_its_table(shared: Provider, recipient: Recipient) -> None:
    token = end_of(lines_of(await recipient.query(includeRefreshToken=True)))["refreshToken"]
    error_of(await recipient.query(refreshToken="garbage"), 400)
    error_of(await recipient.query("u", refreshToken=token), 400)
    page = end_of(lines_of(await recipient.query(maxFiles=1)))["nextPageToken"]
    error_of(await recipient.query(refreshToken=page), 400)
    shared.house.clock.advance(24 * HOUR_MS - 1)
    assert (await recipient.query(refreshToken=token)).status_code == 200


async def test_case_p12_refreshing_is_for_the_newest_version_only(shared: Provider, recipient: Recipient) -> None:
    token = end_of(lines_of(await recipient.query(includeRefreshToken=True)))["refreshToken"]
    for refresh in ({"includeRefreshToken": True}, {"refreshToken": token}):
        for other in (
            {"version": 0},
            {"timestamp": "2023-11-14T22:13:20Z"},
            {"startingVersion": 0},
            {"pageToken": "x"},
        ):
            error_of(await recipient.query(**refresh, **other), 400)


async def test_case_p13_and_p14_the_last_line_is_sent_to_clients_that_ask(
    shared: Provider, recipient: Recipient
) -> None:
    asked = await recipient.post(f"{at('t')}/query", headers=ASKED)
    assert asked.headers["delta-sharing-capabilities"] == "responseformat=parquet;includeendstreamaction=true"
    assert set(end_of(lines_of(asked))) == {"minUrlExpirationTimestamp"}
    for headers in ({}, {"delta-sharing-capabilities": "includeendstreamaction=false"}):
        answer = await recipient.post(f"{at('t')}/query", headers=headers)
        assert answer.headers["delta-sharing-capabilities"] == "responseformat=parquet"
        assert all("endStreamAction" not in line for line in lines_of(answer))


async def test_the_header_announces_the_last_line_only_to_clients_that_ask(
    shared: Provider, recipient: Recipient
) -> None:
    """A client that does not ask gets no other response header than before, also if there is a last line."""
    for body in ({"maxFiles": 2}, {"includeRefreshToken": True}, {"startingVersion": 0, "maxFiles": 2}):
        silent = await recipient.query(**body)
        assert end_of(lines_of(silent))
        assert silent.headers["delta-sharing-capabilities"] == "responseformat=parquet"
        asked = await recipient.post(f"{at('t')}/query", body, headers=ASKED)
        assert end_of(lines_of(asked))
        assert asked.headers["delta-sharing-capabilities"] == "responseformat=parquet;includeendstreamaction=true"


async def test_case_p15_to_p17_asynchronous_queries_are_answered_immediately(
    shared: Provider, recipient: Recipient
) -> None:
    headers = {"delta-sharing-capabilities": "asyncquery=true"}
    for body in ({"idempotency_key": "1"}, {"idempotencyKey": "1"}, {}):
        assert len(files_of(lines_of(await recipient.post(f"{at('t')}/query", body, headers=headers)))) == 5
    error_of(await recipient.post(f"{at('t')}/queries/1"), 404, "RESOURCE_DOES_NOT_EXIST")


async def test_case_p18_a_repeated_key_gets_the_same_files_and_no_query_to_poll(
    shared: Provider, recipient: Recipient
) -> None:
    headers = {"delta-sharing-capabilities": "asyncquery=true"}
    answers = [await recipient.post(f"{at('t')}/query", {"idempotencyKey": "1"}, headers=headers) for _ in range(2)]
    first, second = ([file["id"] for file in files_of(lines_of(answer))] for answer in answers)
    assert len(first) == 5
    assert first == second
    assert all("queryStatus" not in answer.text for answer in answers)
