"""The Python client of Delta Sharing reads Iceberg tables, which PyIceberg writes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import httpx
import pandas as pd
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, StringType

from tests.conformance.lakes import attach_spark, pyiceberg_of, send_request
from tests.conformance.shares import ShareServer, share_server

delta_sharing = pytest.importorskip("delta_sharing")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("spark"),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pandas.errors.Pandas4Warning"),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

FORMATS = (None, False, True)
READS_MAPPED = {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=columnmapping"}
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "city": ["Oslo", "Rome", None],
        "day": pa.array([date(2024, 2, 29), date(1969, 12, 31), None]),
        "at": pa.array([datetime(2024, 5, 1, 8, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
        "price": pa.array([1.5, None, 2.5]),
    }
)


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareServer]:
    with share_server(tmp_path_factory.mktemp("shares")) as shares:
        yield shares


@pytest.fixture(autouse=True)
def _without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture(scope="module")
def lake(shares: ShareServer) -> RestCatalog:
    return pyiceberg_of(shares.server)


def load(url: str, delta_format: Any = None, **given: Any) -> pd.DataFrame:
    return delta_sharing.load_as_pandas(url, use_delta_format=delta_format, **given).sort_values("id")


def test_a_table_is_read_in_both_formats(shares: ShareServer, lake: RestCatalog) -> None:
    table = lake.create_table("sea.plain", ROWS.schema)
    table.append(ROWS)
    table.append(pa.Table.from_pylist([{"id": 4, "city": "Kyiv"}], ROWS.schema))
    url = shares.offer("plain", register=False)
    for delta_format in FORMATS:
        found = load(url, delta_format)
        assert list(found["id"]) == [1, 2, 3, 4]
        assert [None if pd.isna(city) else city for city in found["city"]] == ["Oslo", "Rome", None, "Kyiv"]
        assert pd.to_datetime(found["at"].iloc[0], utc=True) == pd.Timestamp("2024-05-01T08:00:00Z")
        assert str(found["day"].iloc[0])[:10] == "2024-02-29"
    table.delete("id = 2")
    assert list(load(url)["id"]) == [1, 3, 4]


def test_identity_partitions_are_partition_columns(shares: ShareServer, lake: RestCatalog) -> None:
    table = lake.create_table("sea.parts", ROWS.schema)
    with table.update_spec() as update:
        update.add_field("city", IdentityTransform())
        update.add_field("day", IdentityTransform(), "plain_day")
    table.append(ROWS)
    url = shares.offer("parts", register=False)
    for delta_format in FORMATS:
        found = load(url, delta_format)
        assert [None if pd.isna(city) else city for city in found["city"]] == ["Oslo", "Rome", None]
        assert [None if pd.isna(day) else str(day)[:10] for day in found["day"]] == ["2024-02-29", "1969-12-31", None]
    lines = _query(shares, "parts", predicateHints=["city = 'Rome'"])
    assert lines[1]["metaData"]["partitionColumns"] == ["city", "day"]
    assert [line["file"]["partitionValues"] for line in lines[2:]] == [{"city": "Rome", "day": "1969-12-31"}]
    assert len(_query(shares, "parts", predicateHints=["id = 1"])) == 3


def test_an_empty_text_is_not_read_as_null(shares: ShareServer, lake: RestCatalog) -> None:
    rows = pa.table({"id": [1, 2, 3], "city": ["", None, "Oslo"]})
    table = lake.create_table("sea.blank", rows.schema)
    with table.update_spec() as update:
        update.add_field("city", IdentityTransform())
    table.append(rows)
    url = shares.offer("blank", register=False)
    for delta_format in FORMATS:
        assert [None if pd.isna(city) else city for city in load(url, delta_format)["city"]] == ["", None, "Oslo"]


def test_a_partition_filter_hides_files(shares: ShareServer, lake: RestCatalog) -> None:
    table = lake.create_table("sea.filtered", ROWS.schema)
    with table.update_spec() as update:
        update.add_field("city", IdentityTransform())
    partitions = [{"values": [{"name": "city", "op": "EQUAL", "value": "Oslo"}]}]
    url = shares.offer("filtered", register=False, partitions=partitions)
    assert list(load(url)["city"]) == [], "before the first rows"
    table.append(ROWS)
    assert list(load(url)["city"]) == ["Oslo"]


def test_an_empty_table(shares: ShareServer, lake: RestCatalog) -> None:
    lake.create_table("sea.nothing", ROWS.schema)
    found = delta_sharing.load_as_pandas(shares.offer("nothing", register=False))
    assert (list(found.columns), len(found)) == (ROWS.schema.names, 0)


def test_renamed_and_readded_columns_are_read_by_id(shares: ShareServer, lake: RestCatalog) -> None:
    table = lake.create_table("sea.renamed", ROWS.schema)
    with table.update_spec() as spec:
        spec.add_field("day", IdentityTransform())
    table.append(ROWS)
    with table.update_schema() as update:
        update.rename_column("city", "town")
        update.rename_column("day", "date")
        update.delete_column("price")
    with table.update_schema() as update:
        update.add_column("price", DoubleType())
        update.add_column("city", StringType())
    row = {"id": 4, "town": "Kyiv", "price": 4.5, "city": "new"}
    table.append(pa.Table.from_pylist([row], table.schema().as_arrow()))
    url = shares.offer("renamed", register=False)
    for delta_format in (None, True):
        found = load(url, delta_format).astype(object).where(lambda frame: frame.notna(), None)
        assert list(found["town"]) == ["Oslo", "Rome", None, "Kyiv"]
        assert list(found["price"]) == [None, None, None, 4.5], "the former column of this name had another id"
        assert list(found["city"]) == [None, None, None, "new"]
        assert [day and str(day)[:10] for day in found["date"]] == ["2024-02-29", "1969-12-31", None, None]
    for hint in ("date = '1969-12-31'", "id = 2"):
        lines = _query(shares, "renamed", READS_MAPPED, predicateHints=[hint])
        assert len(lines) == 3, "one file can match"
    partitions = [{"values": [{"name": "date", "op": "EQUAL", "value": "1969-12-31"}]}]
    shares.offer("renamed", register=False, shared_as="sea.filtered_by_date", partitions=partitions)
    answer = _post(shares, "filtered_by_date", {}, READS_MAPPED)
    assert answer.status_code == 400
    assert "the partition filter of its share cannot be applied" in answer.json()["message"]
    answer = _post(shares, "renamed", {})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
    assert "columnmapping" in answer.json()["message"].lower()


def test_columns_whose_names_writers_replace_are_read(shares: ShareServer, lake: RestCatalog) -> None:
    """PyIceberg and Spark write `order id` as `order_x20id` in files: a client that looks for the name reads nulls."""
    rows = pa.table({"id": [1, 2], "order id": ["a", "b"], "2nd": [0.5, 1.5], "s": [{"x-y": 1}, {"x-y": 2}]})
    lake.create_table("sea.replaced", rows.schema).append(rows)
    url = shares.offer("replaced", register=False)
    for delta_format in (None, True):
        found = load(url, delta_format)
        assert list(found["order id"]) == ["a", "b"]
        assert list(found["2nd"]) == [0.5, 1.5]
        assert list(found["s"]) == [{"x-y": 1}, {"x-y": 2}]
    assert _post(shares, "replaced", {}).json()["errorCode"] == "UNSUPPORTED_OPERATION"


def test_files_outside_of_the_table_are_refused_before_the_response_begins(
    shares: ShareServer, lake: RestCatalog
) -> None:
    elsewhere = {"write.data.path": f"file://{shares.path_of('elsewhere')}"}
    lake.create_table("sea.outside", ROWS.schema, properties=elsewhere).append(ROWS)
    shares.offer("outside", register=False)
    for body in ({}, {"startingVersion": 0}):
        answer = _post(shares, "outside", body)
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
        assert "outside of its location" in answer.json()["message"]


def test_an_error_does_not_tell_recipients_where_files_are(shares: ShareServer, lake: RestCatalog) -> None:
    lake.create_table("sea.misplaced", ROWS.schema)
    snapshot = {
        "snapshot-id": 7,
        "sequence-number": 1,
        "timestamp-ms": int(time.time() * 1000),
        "manifest-list": "file:///srv/finance/snap-7.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    branch = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7}
    updates = [{"action": "add-snapshot", "snapshot": snapshot}, branch]
    path = "/iceberg/v1/lake/namespaces/sea/tables/misplaced"
    send_request(shares.server, "POST", path, json={"requirements": [], "updates": updates})
    shares.offer("misplaced", register=False)
    answer = _post(shares, "misplaced", {})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
    assert "finance" not in answer.text
    assert "tell its provider" in answer.text


def test_delete_files_are_refused_with_the_reason(shares: ShareServer, spark: Any) -> None:
    attach_spark(spark, shares.server, "sharing")
    properties = "'format-version'='2', 'write.delete.mode'='merge-on-read'"
    for statement in (
        f"CREATE TABLE sharing.sea.deleted (id BIGINT) USING iceberg TBLPROPERTIES ({properties})",
        "INSERT INTO sharing.sea.deleted SELECT id FROM range(0, 100, 1, 1)",
        "DELETE FROM sharing.sea.deleted WHERE id = 5",
    ):
        spark.sql(statement).collect()
    shares.offer("deleted", register=False)
    answer = _post(shares, "deleted", {})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
    assert "delete files" in answer.json()["message"]


def test_deletion_vectors_are_applied(shares: ShareServer, spark: Any) -> None:
    attach_spark(spark, shares.server, "sharing")
    properties = "'format-version'='3', 'write.delete.mode'='merge-on-read'"
    for statement in (
        f"CREATE TABLE sharing.sea.vectors (id BIGINT, city STRING) USING iceberg TBLPROPERTIES ({properties})",
        "INSERT INTO sharing.sea.vectors SELECT id, 'a' FROM range(0, 1000, 1, 1)",
        "INSERT INTO sharing.sea.vectors SELECT id, 'b' FROM range(1000, 1100, 1, 1)",
        "INSERT INTO sharing.sea.vectors SELECT id, 'c' FROM range(2000, 2003, 1, 1)",
        "DELETE FROM sharing.sea.vectors WHERE id % 10 <> 0 AND id < 2000",
        "DELETE FROM sharing.sea.vectors WHERE id = 500",
    ):
        spark.sql(statement).collect()
    url = shares.offer("vectors", register=False)
    left = [id for id in (*range(0, 1100, 10), 2000, 2001, 2002) if id != 500]
    for delta_format in (None, True):
        assert list(load(url, delta_format)["id"]) == left
        assert len(delta_sharing.load_as_pandas(url, use_delta_format=delta_format, limit=105)) == 105
    lines = _query(
        shares, "vectors", {"delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors"}
    )
    vectors = [line["file"]["deltaSingleAction"]["add"].get("deletionVector") for line in lines[2:]]
    assert sorted(each["cardinality"] for each in vectors if each is not None) == [90, 901]
    answer = _post(shares, "vectors", {})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
    assert "deletionvectors" in answer.json()["message"].lower()


def test_older_versions_are_read_by_number_and_by_time(shares: ShareServer, lake: RestCatalog) -> None:
    table = lake.create_table("sea.history", ROWS.schema)
    table.append(ROWS)
    table.append(pa.Table.from_pylist([{"id": 4, "city": "Kyiv"}], ROWS.schema))
    table.delete("id = 1")
    with table.update_schema() as update:
        update.rename_column("city", "town")
    url = shares.offer("history", register=False)
    newest = int(_post(shares, "history", {}, READS_MAPPED).headers["delta-table-version"])
    assert newest == 4
    expected = {0: [], 1: [1, 2, 3], 2: [1, 2, 3, 4], 3: [2, 3, 4], 4: [2, 3, 4]}
    for version, ids in expected.items():
        lines = _query(shares, "history", READS_MAPPED, version=version)
        assert lines[1]["metaData"]["version"] == version
        if not ids:
            continue
        found = load(url, delta_format=True, version=version)
        assert list(found["id"]) == ids
        assert ("town" in found.columns, "city" in found.columns) == (version == 4, version != 4)
        (at_ms,) = {line["file"]["timestamp"] for line in lines[2:]}
        moment = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        assert list(load(url, delta_format=True, timestamp=moment.replace("+00:00", "Z"))["id"]) == ids
        answer = _get(shares, "history", "version", {"startingTimestamp": moment.replace("+00:00", "Z")})
        assert int(answer.headers["delta-table-version"]) == version
    for wrong in ({"version": 5}, {"version": -1}, {"timestamp": "2024-01-01T00:00:00Z"}):
        assert _post(shares, "history", wrong, READS_MAPPED).status_code == 400


def test_versions_whose_snapshot_has_expired_are_refused(shares: ShareServer, lake: RestCatalog) -> None:
    table = lake.create_table("sea.expired", ROWS.schema)
    table.append(ROWS)
    table.append(ROWS)
    shares.offer("expired", register=False)
    assert _post(shares, "expired", {"version": 1}).status_code == 200
    first = table.metadata.snapshots[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(first).commit()
    answer = _post(shares, "expired", {"version": 1})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_PARAMETER_VALUE")
    assert "version 1 of the table does not exist or is no longer available" in answer.json()["message"]
    assert len(_query(shares, "expired", version=2)) == 4


def test_older_versions_need_history(shares: ShareServer, lake: RestCatalog) -> None:
    lake.create_table("sea.present", ROWS.schema).append(ROWS)
    shares.offer("present", register=False, history_data_sharing_status="DISABLED")
    for body in ({"version": 0}, {"timestamp": "2024-01-01T00:00:00Z"}, {"startingVersion": 0}):
        answer = _post(shares, "present", body)
        assert answer.status_code == 400
        assert "history sharing is not enabled" in answer.json()["message"]
    assert len(_query(shares, "present")) == 3


def test_tokens_keep_the_version_although_the_table_changes_and_the_server_restarts(tmp_path: Path) -> None:
    with share_server(tmp_path) as shares:
        table = pyiceberg_of(shares.server).create_table("sea.pinned", ROWS.schema)
        for _ in range(3):
            table.append(ROWS)
        shares.offer("pinned", register=False, history_data_sharing_status="DISABLED")
        whole = _query(shares, "pinned", includeRefreshToken=True)
        token = whole.pop()["endStreamAction"]["refreshToken"]
        page = _query(shares, "pinned", maxFiles=1)
        next_page = page.pop()["endStreamAction"]["nextPageToken"]
        table.append(ROWS)
        shares.server.stop()
        shares.server.start()
        again = _query(shares, "pinned", refreshToken=token)
        assert [line["file"]["id"] for line in again[2:]] == [line["file"]["id"] for line in whole[2:]]
        while next_page is not None:
            lines = _query(shares, "pinned", maxFiles=1, pageToken=next_page)
            next_page = lines.pop()["endStreamAction"].get("nextPageToken")
            page += lines[2:]
        ids = {line["file"]["id"] for line in page[2:]}
        assert (len(page) - 2, ids) == (3, {line["file"]["id"] for line in whole[2:]})


def test_files_are_streamed_from_a_starting_version_on(shares: ShareServer, lake: RestCatalog) -> None:
    table = lake.create_table("sea.stream", ROWS.schema)
    table.append(ROWS)
    table.append(pa.Table.from_pylist([{"id": 4, "city": "Kyiv"}], ROWS.schema))
    with table.transaction() as transaction:
        transaction.set_properties(owner="ann")
    table.delete("id = 1")
    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.append(pa.Table.from_pylist([{"id": 5, "note": "new"}], table.schema().as_arrow()))
    shares.offer("stream", register=False)
    for headers in ({}, {"delta-sharing-capabilities": "responseformat=delta"}):
        is_delta = bool(headers)
        lines = _query(shares, "stream", headers, startingVersion=0)
        actions = [_action(line, is_delta=is_delta) for line in lines if not {"protocol", "metaData"} & set(line)]
        assert [(version, kind) for version, kind, _ in actions] == [
            (1, "add"),
            (2, "add"),
            (4, "remove"),
            (4, "add"),
            (6, "add"),
        ]
        assert actions[2][2] == actions[0][2], "the file that had the deleted row"
        versions = [line["metaData"]["version"] for line in lines if "metaData" in line]
        assert versions == [0, 5], "the metadata of the start, and where it changed"
    ids = [version for version, _, _ in map(_action, _query(shares, "stream", startingVersion=2, endingVersion=3)[2:])]
    assert ids == [2]
    answer = _get(shares, "stream", "changes", {"startingVersion": 0})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "UNSUPPORTED_OPERATION")
    assert "which records no change data feed" in answer.json()["message"]


def _action(line: dict[str, Any], *, is_delta: bool = False) -> tuple[int, str, str]:
    """The version, the kind and the file of a line of a stream."""
    ((kind, file),) = line.items()
    if is_delta:
        (kind,) = file["deltaSingleAction"]
    return file["version"], kind, file["id"]


def _post(shares: ShareServer, table: str, body: dict[str, Any], more: dict[str, str] | None = None) -> httpx.Response:
    profile = json.loads(shares.profile.read_text())
    headers = {"authorization": f"Bearer {profile['bearerToken']}", **(more or {})}
    url = f"{profile['endpoint']}/shares/fish/schemas/sea/tables/{table}/query"
    return httpx.post(url, json=body, headers=headers, trust_env=False)


def _get(shares: ShareServer, table: str, what: str, query: dict[str, Any]) -> httpx.Response:
    profile = json.loads(shares.profile.read_text())
    headers = {"authorization": f"Bearer {profile['bearerToken']}"}
    url = f"{profile['endpoint']}/shares/fish/schemas/sea/tables/{table}/{what}"
    return httpx.get(url, params=query, headers=headers, trust_env=False)


def _query(shares: ShareServer, table: str, headers: dict[str, str] | None = None, **body: Any) -> list[dict[str, Any]]:
    answer = _post(shares, table, body, headers)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]
