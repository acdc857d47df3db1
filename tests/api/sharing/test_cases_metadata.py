"""Cases V and M: the version and the metadata of a table."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.api.sharing.logs import (
    FEED,
    MANAGED,
    MAPPED,
    MINUTE,
    VECTORS,
    commit,
    iso,
    mapped_metadata,
    time_of,
    write_history,
)
from tests.api.sharing.provider import DELTA, Provider, Recipient, at, error_of, lines_of
from tests.snapshots.log_builder import PROTOCOL, add, metadata, remove, vector

CAPABILITIES = "delta-sharing-capabilities"


@pytest.fixture
async def shared(provider: Provider) -> Provider:
    write_history(provider.log())
    await provider.offer()
    return provider


async def version_of(recipient: Recipient, starting: str | None = None, table: str = "t") -> httpx.Response:
    params = {} if starting is None else {"startingTimestamp": starting}
    return await recipient.get(f"{at(table)}/version", params=params)


def stated(answer: httpx.Response) -> int:
    assert answer.status_code == 200, answer.text
    return int(answer.headers["delta-table-version"])


async def metadata_of(recipient: Recipient, capabilities: str | None = None, **params: Any) -> httpx.Response:
    headers = {} if capabilities is None else {CAPABILITIES: capabilities}
    return await recipient.get(f"{at('t')}/metadata", headers=headers, params=params)


# --- version ---------------------------------------------------------------------------------------


async def test_case_v1_and_v2_the_version_is_in_a_header(shared: Provider, recipient: Recipient) -> None:
    answer = await version_of(recipient)
    assert (stated(answer), answer.content) == (3, b"")
    head = await recipient.send("HEAD", at("t"))
    assert (stated(head), head.content) == (3, b"")


async def test_case_v3_to_v5_a_moment_selects_the_first_version_from_then_on(
    shared: Provider, recipient: Recipient
) -> None:
    assert stated(await version_of(recipient, "1999-01-01T00:00:00Z")) == 0
    assert stated(await version_of(recipient, iso(time_of(1) + 1))) == 2
    for version in range(4):
        assert stated(await version_of(recipient, iso(time_of(version)))) == version
    assert stated(await recipient.send("HEAD", at("t"), params={"startingTimestamp": iso(time_of(2))})) == 2
    assert stated(await version_of(recipient, iso(time_of(1)).replace("Z", "5Z"))) == 2


async def test_case_v6_and_v7_a_moment_must_not_be_after_the_last_version(
    shared: Provider, recipient: Recipient
) -> None:
    error_of(await version_of(recipient, iso(time_of(3) + 1)), 400)
    error_of(await version_of(recipient, iso(time_of(3)).replace("Z", "5Z")), 400)
    error_of(await version_of(recipient, "9999-12-31T23:59:59.999999Z"), 400)
    for wrong in ("abc", "2021-01-01", "2021-01-01T00:00:00", "1700000000000"):
        error_of(await version_of(recipient, wrong), 400)


async def test_case_v8_a_moment_needs_history(provider: Provider, recipient: Recipient) -> None:
    write_history(provider.log())
    await provider.offer(history=False)
    assert "history" in error_of(await version_of(recipient, iso(time_of(1))), 400)
    assert stated(await version_of(recipient)) == 3


async def test_case_v9_an_unknown_table_has_no_version(shared: Provider, recipient: Recipient) -> None:
    for path in (at("x"), at("t", "x"), at("t", "sea", "x")):
        error_of(await recipient.get(f"{path}/version"), 404, "RESOURCE_DOES_NOT_EXIST")
        head = await recipient.send("HEAD", path)
        assert (head.status_code, head.content) == (404, b"")


async def test_case_v10_versions_before_the_start_are_not_shared(provider: Provider, recipient: Recipient) -> None:
    write_history(provider.log())
    await provider.offer(start_version=2)
    error_of(await version_of(recipient, iso(time_of(1))), 400)
    assert stated(await version_of(recipient, iso(time_of(2)))) == 2


# --- metadata --------------------------------------------------------------------------------------


async def test_case_m1_and_m2_two_lines_in_parquet_format(provider: Provider, recipient: Recipient) -> None:
    described = metadata({"id": "long", "day": "date"}, partitions=["day"])
    described["metaData"] |= {"name": "n", "description": "d"}
    commit(provider.log(), PROTOCOL, described, add("a", size=5), add("b", size=7))
    await provider.offer()
    answer = await metadata_of(recipient)
    protocol, line = lines_of(answer)
    assert protocol == {"protocol": {"minReaderVersion": 1}}
    found = line["metaData"]
    assert (found["format"], found["partitionColumns"]) == ({"provider": "parquet"}, ["day"])
    assert (found["name"], found["description"]) == ("n", "d")
    assert (found["size"], found["numFiles"]) == (12, 2)
    assert [field["name"] for field in json.loads(found["schemaString"])["fields"]] == ["id", "day"]
    assert answer.headers[CAPABILITIES] == "responseformat=parquet"
    assert answer.headers["delta-table-version"] == "0"


async def test_case_m3_of_the_column_metadata_only_comments_are_shared(
    provider: Provider, recipient: Recipient
) -> None:
    inner = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {"secret": 1}}]}
    described = metadata({"id": "long", "s": inner, "l": {"type": "array", "elementType": inner, "containsNull": True}})
    schema = json.loads(described["metaData"]["schemaString"])
    schema["fields"][0]["metadata"] = {"comment": "c", "delta.generationExpression": "secret"}
    described["metaData"]["schemaString"] = json.dumps(schema)
    commit(provider.log(), PROTOCOL, described)
    await provider.offer()
    _, line = lines_of(await metadata_of(recipient))
    shown = line["metaData"]["schemaString"]
    assert json.loads(shown)["fields"][0]["metadata"] == {"comment": "c"}
    assert "secret" not in shown


async def test_case_m4_of_the_configuration_only_the_change_feed_is_shared(
    provider: Provider, recipient: Recipient
) -> None:
    for name, history in (("t", True), ("u", False)):
        write_history(provider.log(name), configuration={**FEED, "secret": "1"})
        await provider.offer(name, history=history)
    _, line = lines_of(await metadata_of(recipient))
    assert line["metaData"]["configuration"] == {"enableChangeDataFeed": "true"}
    _, line = lines_of(await recipient.get(f"{at('u')}/metadata"))
    assert "configuration" not in line["metaData"]


async def test_case_m5_delta_format_wraps_the_actions(shared: Provider, recipient: Recipient) -> None:
    answer = await metadata_of(recipient, "responseformat=delta")
    protocol, line = lines_of(answer)
    assert protocol == {"protocol": {"deltaProtocol": PROTOCOL["protocol"]}}
    written = shared.log().log / f"{0:020}.json"
    actions = [json.loads(text) for text in written.read_text().splitlines()]
    assert line["metaData"]["deltaMetadata"] == actions[1]["metaData"]
    assert answer.headers[CAPABILITIES] == "responseformat=delta"


async def test_case_m6_a_basic_table_is_answered_in_parquet_format(shared: Provider, recipient: Recipient) -> None:
    for stated in ("responseformat=delta,parquet", "responseformat=parquet,delta;readerfeatures=deletionvectors"):
        assert (await metadata_of(recipient, stated)).headers[CAPABILITIES] == "responseformat=parquet"


@pytest.fixture
async def advanced(provider: Provider) -> Provider:
    log = provider.log()
    commit(log, VECTORS, metadata(configuration={"delta.enableDeletionVectors": "true"}), add("a"))
    commit(log, remove("a", size=1, partitionValues={}), add("a", deletionVector=vector("v", offset=1)))
    await provider.offer()
    return provider


async def test_case_m7_an_advanced_table_is_answered_in_delta_format(advanced: Provider, recipient: Recipient) -> None:
    stated = "responseformat=delta,parquet;readerfeatures=deletionvectors,columnmapping"
    answer = await metadata_of(recipient, stated)
    assert answer.headers[CAPABILITIES] == "responseformat=delta"
    assert lines_of(answer)[0]["protocol"]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]
    commit(advanced.log("m"), MAPPED, mapped_metadata({"id": "long"}))
    await advanced.offer("m")
    mapped = await recipient.get(f"{at('m')}/metadata", headers={CAPABILITIES: stated})
    assert mapped.headers[CAPABILITIES] == "responseformat=delta"


async def test_case_m8_an_advanced_table_cannot_be_read_in_parquet_format(
    advanced: Provider, recipient: Recipient
) -> None:
    for stated in (None, "responseformat=parquet", "readerfeatures=deletionvectors"):
        assert "deletionVectors" in error_of(await metadata_of(recipient, stated), 400, "UNSUPPORTED_OPERATION")


async def test_case_m9_a_missing_reader_feature_is_named(advanced: Provider, recipient: Recipient) -> None:
    for stated in ("responseformat=delta", "responseformat=delta,parquet;readerfeatures=columnmapping"):
        assert "deletionVectors" in error_of(await metadata_of(recipient, stated), 400, "UNSUPPORTED_OPERATION")


async def test_a_vector_is_needed_only_while_a_file_has_one(advanced: Provider, recipient: Recipient) -> None:
    log = advanced.log()
    log.commits = [[], []]
    commit(log, remove("a", size=1, partitionValues={}, deletionVector=vector("v", offset=1)), add("b"))
    assert lines_of(await metadata_of(recipient))[0] == {"protocol": {"minReaderVersion": 1}}
    protocol, described = lines_of(await metadata_of(recipient, "responseformat=delta"))
    assert protocol["protocol"]["deltaProtocol"] == {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["changeDataFeed"],
    }
    # Spark refuses a table whose metadata enables a feature that its protocol does not list.
    assert described["metaData"]["deltaMetadata"]["configuration"] == {}
    older = await recipient.post(f"{at('t')}/query", {"version": 1}, headers=DELTA)
    protocol, described = lines_of(older)[:2]
    assert protocol["protocol"]["deltaProtocol"]["readerFeatures"] == ["deletionVectors"]
    assert described["metaData"]["deltaMetadata"]["configuration"] == {"delta.enableDeletionVectors": "true"}


async def test_a_table_with_widened_types_is_told_with_its_type_changes(
    provider: Provider, recipient: Recipient
) -> None:
    """Readers need the changes, because older files have the narrower type."""
    features = ["typeWidening"]
    widening = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    changed = [{"fromType": "integer", "toType": "long"}]
    described = metadata({"id": "long"})
    field = {"name": "id", "type": "long", "nullable": True, "metadata": {"delta.typeChanges": changed}}
    described["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [field]})
    commit(provider.log(), {"protocol": widening}, described, add("a"))
    await provider.offer()
    for stated in (None, "responseformat=delta;readerfeatures=deletionvectors"):
        assert "typeWidening" in error_of(await metadata_of(recipient, stated), 400, "UNSUPPORTED_OPERATION")
    answer = await metadata_of(recipient, "responseformat=parquet,delta;readerfeatures=typewidening")
    assert answer.headers[CAPABILITIES] == "responseformat=delta"
    protocol, line = lines_of(answer)
    assert protocol["protocol"]["deltaProtocol"] == widening
    assert json.loads(line["metaData"]["deltaMetadata"]["schemaString"])["fields"] == [field]


async def test_features_of_the_log_are_not_shared(provider: Provider, recipient: Recipient) -> None:
    features = [feature for feature in MANAGED["protocol"]["readerFeatures"] if feature != "catalogManaged"]
    protocol = {"protocol": {**MANAGED["protocol"], "readerFeatures": features}}
    properties = {"delta.enableInCommitTimestamps": "true", "delta.checkpointPolicy": "v2", "own": "1"}
    info = {"commitInfo": {"inCommitTimestamp": time_of(0)}}
    commit(provider.log(), info, protocol, metadata(configuration=properties), add("a"))
    await provider.offer()
    assert lines_of(await metadata_of(recipient))[0] == {"protocol": {"minReaderVersion": 1}}
    stated, line = lines_of(await metadata_of(recipient, "responseformat=delta"))
    assert stated["protocol"]["deltaProtocol"] == {
        "minReaderVersion": 1,
        "minWriterVersion": 7,
        "writerFeatures": ["appendOnly"],
    }
    assert line["metaData"]["deltaMetadata"]["configuration"] == {"own": "1"}


async def test_case_m10_and_m11_capabilities_are_case_insensitive_and_may_be_unknown(
    advanced: Provider, recipient: Recipient
) -> None:
    stated = "ResponseFormat=DELTA;ReaderFeatures=DeletionVectors;future=x;y"
    assert (await metadata_of(recipient, stated)).headers[CAPABILITIES] == "responseformat=delta"
    error_of(await metadata_of(recipient, "responseformat=avro"), 400)


@pytest.fixture
async def evolved(provider: Provider) -> Provider:
    log = provider.log()
    for version in range(3):
        commit(log, *([PROTOCOL] if version == 0 else []), metadata({f"c{n}": "long" for n in range(version + 1)}))
    await provider.offer()
    return provider


def columns(answer: httpx.Response) -> int:
    return len(json.loads(lines_of(answer)[1]["metaData"]["schemaString"])["fields"])


async def test_case_m12_to_m14_the_metadata_of_a_version_or_a_moment(evolved: Provider, recipient: Recipient) -> None:
    for version in range(3):
        for params in ({"version": version}, {"timestamp": iso(time_of(version))}):
            answer = await metadata_of(recipient, **params)
            assert (columns(answer), answer.headers["delta-table-version"]) == (version + 1, str(version))
            assert lines_of(answer)[1]["metaData"]["version"] == version
    assert "latest is 2" in error_of(await metadata_of(recipient, version=3), 400)
    assert columns(await metadata_of(recipient, timestamp=iso(time_of(1) + MINUTE - 1))) == 2


@pytest.mark.parametrize(
    "params",
    [
        {"timestamp": "2021-01-01"},
        {"timestamp": iso(time_of(0) - 1)},
        {"timestamp": iso(time_of(2) + 1)},
        {"version": -1},
        {"version": "x"},
        {"version": 1, "timestamp": iso(time_of(1))},
    ],
)
async def test_case_m15_to_m18_an_impossible_version_is_refused(
    evolved: Provider, recipient: Recipient, params: dict[str, Any]
) -> None:
    error_of(await metadata_of(recipient, **params), 400)


async def test_case_m19_older_metadata_needs_history(provider: Provider, recipient: Recipient) -> None:
    write_history(provider.log())
    await provider.offer(history=False)
    for params in ({"version": 1}, {"timestamp": iso(time_of(1))}):
        assert "history" in error_of(await metadata_of(recipient, **params), 400)


async def test_case_m20_and_m21_metadata_is_stable_and_has_two_lines(shared: Provider, recipient: Recipient) -> None:
    answers = [await metadata_of(recipient, "includeendstreamaction=true") for _ in range(2)]
    assert [len(lines_of(answer)) for answer in answers] == [2, 2]
    assert answers[0].text == answers[1].text
    assert "endstream" not in answers[0].headers[CAPABILITIES]
