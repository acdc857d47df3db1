"""Case X: older versions, and streams of changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.sharing.logs import FEED, VECTORS, commit, iso, time_of, write_history
from tests.api.sharing.provider import DELTA, Provider, Recipient, at, error_of, files_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, add, metadata, remove


@pytest.fixture
async def shared(provider: Provider) -> Provider:
    write_history(provider.log())
    await provider.offer()
    return provider


async def test_case_x1_the_files_of_a_version(shared: Provider, recipient: Recipient) -> None:
    for version, count in enumerate((2, 3, 3, 2)):
        answer = await recipient.query(version=version)
        lines = lines_of(answer)
        assert len(files_of(lines)) == count
        assert {(file["version"], file["timestamp"]) for file in files_of(lines)} == {(version, time_of(version))}
        assert answer.headers["delta-table-version"] == str(version)
        assert lines[1]["metaData"]["version"] == version
        in_delta = lines_of(await recipient.post(f"{at('t')}/query", {"version": version}, headers=DELTA))
        assert {(file["version"], file["timestamp"]) for file in files_of(in_delta)} == {(version, time_of(version))}


@pytest.mark.parametrize(
    "body",
    [
        {"version": 4},
        {"version": -2},
        {"version": "x3"},
        {"timestamp": iso(time_of(0) - 1)},
        {"timestamp": iso(time_of(3) + 1)},
        {"timestamp": "abc"},
        {"version": 1, "timestamp": iso(time_of(1))},
        {"version": 1, "startingVersion": 1},
        {"version": 1, "timestamp": iso(time_of(1)), "startingVersion": 1},
    ],
)
async def test_case_x2_to_x4_an_impossible_version_is_refused(
    shared: Provider, recipient: Recipient, body: dict[str, Any]
) -> None:
    error_of(await recipient.post(f"{at('t')}/query", body), 400)


async def test_case_x5_the_files_at_a_moment(shared: Provider, recipient: Recipient) -> None:
    for version in range(3):
        for offset in (0, 1, 59_999):
            answer = await recipient.query(timestamp=iso(time_of(version) + offset))
            assert answer.headers["delta-table-version"] == str(version)
    assert (await recipient.query(timestamp=iso(time_of(3)))).headers["delta-table-version"] == "3"


async def test_case_x6_to_x8_moments_outside_and_contradictions(shared: Provider, recipient: Recipient) -> None:
    for body in (
        {"timestamp": iso(time_of(0) - 1)},
        {"timestamp": iso(time_of(3) + 1)},
        {"timestamp": "abc"},
        {"timestamp": iso(time_of(1)), "startingVersion": 1},
    ):
        error_of(await recipient.post(f"{at('t')}/query", body), 400, "INVALID_PARAMETER_VALUE")


async def test_case_x9_older_versions_need_history(provider: Provider, recipient: Recipient) -> None:
    write_history(provider.log())
    await provider.offer(history=False)
    for body in ({"version": 1}, {"timestamp": iso(time_of(1))}, {"startingVersion": 1}):
        assert "Fish.sea.t" in error_of(await recipient.post(f"{at('t')}/query", body), 400)
    assert len(files_of(lines_of(await recipient.query()))) == 2


async def test_case_x10_versions_before_the_start_are_not_shared(provider: Provider, recipient: Recipient) -> None:
    write_history(provider.log())
    await provider.offer(start_version=2)
    for body in ({"version": 1}, {"timestamp": iso(time_of(1))}, {"startingVersion": 1}):
        error_of(await recipient.post(f"{at('t')}/query", body), 400)
    for body in ({"version": 2}, {"timestamp": iso(time_of(2))}, {"startingVersion": 2}):
        assert (await recipient.post(f"{at('t')}/query", body)).status_code == 200


async def test_a_table_whose_newest_version_is_before_the_start_is_not_shared_yet(
    provider: Provider, recipient: Recipient
) -> None:
    log = provider.log()
    write_history(log)
    await provider.offer(start_version=4)
    asked = [
        await recipient.query(),
        await recipient.query(maxFiles=1),
        await recipient.get(f"{at('t')}/metadata"),
        await recipient.get(f"{at('t')}/version"),
    ]
    for answer in asked:
        assert "the first shared version is 4" in error_of(answer, 400)
    commit(log, add("d"))
    assert (await recipient.query()).headers["delta-table-version"] == "4"


async def test_case_x11_changes_in_parquet_format(shared: Provider, recipient: Recipient) -> None:
    answer = await recipient.query(startingVersion=0)
    lines = lines_of(answer)
    assert [next(iter(line)) for line in lines] == ["protocol", "metaData", "add", "add", "add", "remove", "add"]
    assert answer.headers["delta-table-version"] == "0"
    assert lines[1]["metaData"]["version"] == 0
    added, removed = files_of(lines, "add"), files_of(lines, "remove")
    assert [(file["version"], file["timestamp"]) for file in added] == [(v, time_of(v)) for v in (0, 0, 1, 2)]
    assert set(removed[0]) == {"url", "id", "partitionValues", "size", "version", "timestamp", "expirationTimestamp"}
    assert removed[0]["id"] == added[0]["id"]


async def test_case_x12_a_changed_schema_has_a_line(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    commit(log, PROTOCOL, metadata({"a": "long"}), add("a"))
    commit(log, metadata({"a": "long", "b": "long"}))
    commit(log, add("b"))
    await provider.offer()
    lines = lines_of(await recipient.query(startingVersion=0))
    assert [line["metaData"]["version"] for line in lines if "metaData" in line] == [0, 1]
    later = lines_of(await recipient.query(startingVersion=2))
    assert '"b"' in later[1]["metaData"]["schemaString"]
    assert later[1]["metaData"]["version"] == 2


async def test_case_x13_changes_in_delta_format(shared: Provider, recipient: Recipient) -> None:
    lines = lines_of(await recipient.post(f"{at('t')}/query", {"startingVersion": 1}, headers=DELTA))
    files = files_of(lines)
    kinds = [next(iter(file["deltaSingleAction"])) for file in files]
    assert kinds == ["add", "remove", "add"]
    assert [(file["version"], file["timestamp"]) for file in files] == [(v, time_of(v)) for v in (1, 2, 2)]
    assert lines[1]["metaData"]["version"] == 1
    removed = files[1]["deltaSingleAction"]["remove"]
    assert removed["path"].startswith("http")
    assert (removed["size"], removed["dataChange"]) == (1, True)


async def test_case_x14_to_x17_the_end_of_a_range(shared: Provider, recipient: Recipient) -> None:
    lines = lines_of(await recipient.query(startingVersion=1, endingVersion=1))
    assert [file["version"] for file in files_of(lines, "add")] == [1]
    error_of(await recipient.query(startingVersion=2, endingVersion=1), 400)
    error_of(await recipient.query(startingVersion=4), 400)
    error_of(await recipient.query(startingVersion=-1), 400)
    assert len(files_of(lines_of(await recipient.query(startingVersion=2, endingVersion=99)), "add")) == 1


async def test_case_x18_versions_that_are_gone(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    write_history(log)
    log.checkpoint(2)
    log.delete_commits(0, 1)
    await provider.offer()
    assert "2" in error_of(await recipient.query(startingVersion=0), 400)
    assert (await recipient.query(startingVersion=2)).status_code == 200


async def test_case_x19_a_protocol_that_the_client_does_not_support(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    commit(log, PROTOCOL, metadata(), add("a"))
    features = ["typeWidening"]
    raised = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    commit(log, {"protocol": raised})
    await provider.offer()
    error_of(await recipient.query(startingVersion=0), 400, "UNSUPPORTED_OPERATION")
    assert (await recipient.query(startingVersion=0, endingVersion=0)).status_code == 200


async def test_case_x20_older_protocols_are_told_on_request(provider: Provider, recipient: Recipient) -> None:
    log = provider.log()
    commit(log, PROTOCOL, metadata(configuration=FEED), add("a"))
    commit(log, VECTORS, add("b"))
    commit(log, remove("a", size=1, partitionValues={}))
    await provider.offer()
    body = {"startingVersion": 0, "includeHistoricalProtocol": True}
    lines = lines_of(await recipient.post(f"{at('t')}/query", body, headers=DELTA))
    stated = [line["protocol"] for line in lines if "protocol" in line]
    assert [protocol["version"] for protocol in stated] == [0, 1]
    assert stated[0]["deltaProtocol"] == PROTOCOL["protocol"]
    in_parquet = lines_of(await recipient.post(f"{at('t')}/query", body))
    assert [line for line in in_parquet if "protocol" in line] == [{"protocol": {"minReaderVersion": 1}}]
    feed = {"startingVersion": 0, "endingVersion": 1, "includeHistoricalProtocol": "true"}
    told = lines_of(await recipient.get(f"{at('t')}/changes", params=feed, headers=DELTA))
    assert [line["protocol"] for line in told if "protocol" in line] == stated
    feed_in_parquet = lines_of(await recipient.get(f"{at('t')}/changes", params=feed))
    assert [line for line in feed_in_parquet if "protocol" in line] == [{"protocol": {"minReaderVersion": 1}}]
