"""Case C: the change data feed."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.sharing.logs import FEED, MAPPED, VECTORS, commit, iso, mapped_metadata, time_of, write_history
from tests.api.sharing.provider import DELTA, Provider, Recipient, at, error_of, files_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, add, metadata, remove, vector


@pytest.fixture
async def shared(provider: Provider) -> Provider:
    write_history(provider.log())
    await provider.offer()
    return provider


async def changes(recipient: Recipient, headers: Any = None, **params: Any) -> httpx.Response:
    return await recipient.get(f"{at('t')}/changes", params=params, headers=headers or {})


def kinds(answer: httpx.Response) -> list[str]:
    return [next(iter(line)) for line in lines_of(answer)]


async def test_case_c1_the_feed_in_parquet_format(shared: Provider, recipient: Recipient) -> None:
    answer = await changes(recipient, startingVersion=0, endingVersion=3)
    assert kinds(answer) == ["protocol", "metaData", "add", "add", "add", "cdf"]
    assert answer.headers["delta-table-version"] == "0"
    lines = lines_of(answer)
    assert [(file["version"], file["timestamp"]) for file in files_of(lines, "cdf")] == [(2, time_of(2))]
    assert set(files_of(lines, "cdf")[0]) == {
        "url",
        "id",
        "partitionValues",
        "size",
        "timestamp",
        "version",
        "expirationTimestamp",
    }
    assert (await changes(recipient, startingVersion=2)).headers["delta-table-version"] == "2"


async def test_case_c2_the_feed_in_delta_format(shared: Provider, recipient: Recipient) -> None:
    answer = await changes(recipient, DELTA, startingVersion=1)
    lines = lines_of(answer)
    assert lines[1]["metaData"]["version"] == 1
    actions = [(file["version"], next(iter(file["deltaSingleAction"]))) for file in files_of(lines)]
    assert actions == [(1, "add"), (2, "cdc")]
    assert all(file["timestamp"] == time_of(file["version"]) for file in files_of(lines))


async def test_case_c3_without_an_end_it_goes_to_the_newest_version(shared: Provider, recipient: Recipient) -> None:
    assert kinds(await changes(recipient, startingVersion=2)) == ["protocol", "metaData", "cdf"]
    assert kinds(await changes(recipient, startingVersion=3)) == ["protocol", "metaData"]


async def test_case_c4_a_range_of_time(shared: Provider, recipient: Recipient) -> None:
    answer = await changes(recipient, startingTimestamp=iso(time_of(0) + 1), endingTimestamp=iso(time_of(2) - 1))
    assert kinds(answer) == ["protocol", "metaData", "add"]
    assert answer.headers["delta-table-version"] == "1"
    exact = await changes(recipient, startingTimestamp=iso(time_of(0)), endingTimestamp=iso(time_of(2)))
    assert kinds(exact)[2:] == ["add", "add", "add", "cdf"]


async def test_case_c5_and_c6_a_commit_is_told_by_its_change_files_if_it_has_any(
    provider: Provider, recipient: Recipient
) -> None:
    log = provider.log()
    commit(log, PROTOCOL, metadata(configuration=FEED), add("a"))
    commit(log, remove("a", size=7, partitionValues={}))
    await provider.offer()
    lines = lines_of(await changes(recipient, startingVersion=0))
    assert [next(iter(line)) for line in lines[2:]] == ["add", "remove"]
    assert files_of(lines, "remove")[0]["size"] == 7


@pytest.fixture
async def evolved(provider: Provider) -> Provider:
    log = provider.log()
    commit(log, PROTOCOL, metadata({"a": "long"}, configuration=FEED), add("a"))
    commit(log, metadata({"a": "long", "b": "long"}, configuration=FEED), add("b"))
    await provider.offer()
    return provider


async def test_case_c7_and_c8_older_metadata_is_told_on_request(evolved: Provider, recipient: Recipient) -> None:
    for stated in ("true", "True"):
        lines = lines_of(await changes(recipient, startingVersion=0, includeHistoricalMetadata=stated))
        found = [line["metaData"] for line in lines if "metaData" in line]
        assert [line["version"] for line in found] == [0, 1]
        assert '"b"' not in found[0]["schemaString"]
    for headers in ({}, DELTA):
        lines = lines_of(await changes(recipient, headers, startingVersion=0))
        assert len([line for line in lines if "metaData" in line]) == 1


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"endingVersion": 1},
        {"startingVersion": 0, "startingTimestamp": iso(time_of(0))},
        {"startingVersion": 0, "endingVersion": 1, "endingTimestamp": iso(time_of(1))},
        {"startingVersion": "x"},
        {"startingTimestamp": "x"},
        {"startingVersion": 0, "endingTimestamp": "x"},
        {"startingVersion": 2, "endingVersion": 1},
        {"startingTimestamp": iso(time_of(2)), "endingTimestamp": iso(time_of(1))},
        {"startingVersion": 4},
        {"startingVersion": -1},
    ],
)
async def test_case_c9_to_c13_an_impossible_range_is_refused(
    shared: Provider, recipient: Recipient, params: dict[str, Any]
) -> None:
    error_of(await changes(recipient, **params), 400)


async def test_case_c14_a_feed_with_a_gap_is_refused(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    commit(log, PROTOCOL, metadata(), add("a"))
    commit(log, metadata(configuration=FEED), add("b"))
    commit(log, add("c"))
    commit(log, metadata())
    await provider.offer()
    assert "0" in error_of(await changes(recipient, startingVersion=0), 400)
    assert "3" in error_of(await changes(recipient, startingVersion=1), 400)
    assert (await changes(recipient, startingVersion=1, endingVersion=2)).status_code == 200


async def test_case_c15_and_c16_a_feed_needs_history_and_shared_versions(
    provider: Provider, recipient: Recipient
) -> None:
    write_history(provider.log("t"))
    await provider.offer("t", start_version=2)
    error_of(await changes(recipient, startingVersion=1), 400)
    error_of(await changes(recipient, startingTimestamp=iso(time_of(1))), 400)
    assert (await changes(recipient, startingVersion=2)).status_code == 200
    write_history(provider.log("u"))
    await provider.offer("u", history=False)
    assert "history" in error_of(await recipient.get(f"{at('u')}/changes", params={"startingVersion": 0}), 400)


async def test_case_c17_the_last_line_is_sent_on_request(shared: Provider, recipient: Recipient) -> None:
    answer = await changes(recipient, {"delta-sharing-capabilities": "includeEndStreamAction=true"}, startingVersion=0)
    assert answer.headers["delta-sharing-capabilities"].endswith(";includeendstreamaction=true")
    assert kinds(answer)[-1] == "endStreamAction"


async def test_case_c18_moments_outside_of_the_history_are_refused(shared: Provider, recipient: Recipient) -> None:
    early, late = iso(time_of(0) - 1), iso(time_of(3) + 1)
    for params in (
        {"startingTimestamp": early},
        {"startingTimestamp": late},
        {"startingVersion": 0, "endingTimestamp": early},
        {"startingVersion": 0, "endingTimestamp": late},
    ):
        error_of(await changes(recipient, **params), 400)


async def test_case_c19_the_feed_of_a_table_with_deletion_vectors(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    described = metadata(configuration=FEED)
    deleted = {**vector("x"), "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^", "offset": 1}
    commit(log, VECTORS, described, add("a"))
    commit(log, remove("a", size=1, partitionValues={}), add("a", deletionVector=deleted))
    await provider.offer()
    error_of(await changes(recipient, startingVersion=0), 400, "UNSUPPORTED_OPERATION")
    lines = lines_of(await changes(recipient, DELTA, startingVersion=0))
    last = files_of(lines)[-1]
    assert last["deltaSingleAction"]["add"]["deletionVector"]["pathOrInlineDv"].startswith("http")
    assert last["deletionVectorFileId"]
    assert kinds(await changes(recipient, startingVersion=0, endingVersion=0)) == ["protocol", "metaData", "add"]


@pytest.mark.parametrize("is_raised", [True, False])
async def test_the_protocol_of_a_range_lists_what_any_of_its_versions_uses(
    provider: Provider, recipient: Recipient, *, is_raised: bool
) -> None:
    """A client without historical protocols applies the first one to all versions of the range."""
    log = provider.log()
    plain = (PROTOCOL, metadata(configuration=FEED))
    with_vectors = (VECTORS, metadata(configuration={**FEED, "delta.enableDeletionVectors": "true"}))
    first, second = (plain, with_vectors) if is_raised else (with_vectors, plain)
    commit(log, *first, add("a"))
    file = add("b", deletionVector=vector("v", offset=1))
    commit(log, *([] if is_raised else [file]), add("c"))
    commit(log, *second, *([file] if is_raised else []))
    await provider.offer()
    feed = await recipient.get(f"{at('t')}/changes?startingVersion=0&includeHistoricalMetadata=true", headers=DELTA)
    stream = await recipient.post(f"{at('t')}/query", {"startingVersion": 0}, headers=DELTA)
    for answer in (feed, stream):
        lines = lines_of(answer)
        (protocol,) = [line["protocol"]["deltaProtocol"] for line in lines if "protocol" in line]
        assert protocol["readerFeatures"] == ["deletionVectors"]
        assert (protocol["minReaderVersion"], protocol["minWriterVersion"]) == (3, 7)
        told = [line["metaData"]["deltaMetadata"]["configuration"] for line in lines if "metaData" in line]
        assert [("delta.enableDeletionVectors" in each) for each in told] == [not is_raised, is_raised]
    assert (await recipient.query(startingVersion=0)).status_code == 400


async def test_changes_since_a_moment_of_which_the_log_is_gone_are_refused(
    provider: Provider, recipient: Recipient
) -> None:
    log = provider.log()
    write_history(log)
    log.checkpoint(2)
    log.delete_commits(0, 1)
    await provider.offer()
    assert "2" in error_of(await changes(recipient, startingTimestamp=iso(time_of(1))), 400)
    assert "2" in error_of(await changes(recipient, startingTimestamp=iso(time_of(0) - 1)), 400)
    answer = await changes(recipient, startingTimestamp=iso(time_of(2)))
    assert (answer.status_code, answer.headers["delta-table-version"]) == (200, "2")


async def test_changes_from_before_column_mapping_was_removed_are_not_told_with_the_later_names(
    provider: Provider, recipient: Recipient
) -> None:
    log = provider.log()
    mapped = mapped_metadata({"id": "long"})
    mapped["metaData"]["configuration"] |= FEED
    commit(log, MAPPED, mapped, add("with-physical-names"))
    removed = remove("with-physical-names", size=1, partitionValues={}, dataChange=False)
    commit(log, metadata({"id": "long"}, configuration=FEED), removed, add("rewritten", dataChange=False))
    commit(log, add("new"))
    await provider.offer()
    for headers in ({}, DELTA):
        assert "version 1" in error_of(await changes(recipient, headers, startingVersion=0), 400)
        assert (await changes(recipient, headers, startingVersion=1)).status_code == 200
    error_of(await recipient.query(startingVersion=0), 400, "UNSUPPORTED_OPERATION")
    for answer in (
        await changes(recipient, DELTA, startingVersion=0, includeHistoricalMetadata="true"),
        await recipient.post(f"{at('t')}/query", {"startingVersion": 0}, headers=DELTA),
    ):
        modes = [
            line["metaData"]["deltaMetadata"]["configuration"].get("delta.columnMapping.mode")
            for line in lines_of(answer)
            if "metaData" in line
        ]
        assert modes == ["name", None]
