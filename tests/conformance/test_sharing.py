"""The Python client of Delta Sharing reads every kind of table, in both formats."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import deltalake
import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from moorage.testing import delta_writer as write
from tests.conformance.shares import ShareServer, share_server
from tests.snapshots.log_builder import PROTOCOL, LogBuilder, add, metadata

delta_sharing = pytest.importorskip("delta_sharing")

# The client passes arguments that pandas 3 ignores, and leaves its connections to the garbage collector.
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

FORM = {"chosen": None, "parquet": False, "delta": True}
"""How the client is told which format to use. By default it asks the server."""
FORMATS = pytest.mark.parametrize("form", FORM)
FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ShareServer]:
    with share_server(tmp_path_factory.mktemp("shares")) as shares:
        yield shares


@pytest.fixture(autouse=True)
def _without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the machine cannot reach a server on loopback."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")


def rows(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The rows of a frame in a stable order, with every kind of null as None."""
    values = [tuple(None if pd.isna(value) else value for value in row) for row in frame.itertuples(index=False)]
    return sorted(values, key=str)


def load(url: str, *, delta_format: bool | None = None, **given: Any) -> list[tuple[Any, ...]]:
    return rows(delta_sharing.load_as_pandas(url, use_delta_format=delta_format, **given))


@pytest.fixture(scope="module")
def numbers(shares: ShareServer) -> str:
    """Three versions of ten rows each, with a partition column."""
    folder = str(shares.path_of("numbers"))
    for version in range(3):
        first = version * 10
        data = pa.table({"id": list(range(first, first + 10)), "p": [version] * 10})
        deltalake.write_deltalake(folder, data, mode="append", partition_by=["p"], configuration=FEED)
        time.sleep(0.01)
    return shares.offer("numbers")


def test_shares_and_tables_are_listed(shares: ShareServer, numbers: str) -> None:
    client = delta_sharing.SharingClient(str(shares.profile))
    (share,) = client.list_shares()
    assert share.name == "fish"
    (schema,) = client.list_schemas(share)
    assert schema.name == "sea"
    assert "numbers" in {table.name for table in client.list_tables(schema)}
    assert "numbers" in {table.name for table in client.list_all_tables()}


@FORMATS
def test_a_table_is_read_whole(numbers: str, form: str) -> None:
    assert load(numbers, delta_format=FORM[form]) == rows(pd.DataFrame({"id": range(30), "p": sorted([0, 1, 2] * 10)}))


@FORMATS
@pytest.mark.parametrize("limit", [0, 1, 15])
def test_a_limit_is_kept(numbers: str, form: str, limit: int) -> None:
    assert len(load(numbers, delta_format=FORM[form], limit=limit)) == limit


@FORMATS
def test_a_predicate_leaves_out_files(numbers: str, form: str) -> None:
    hint = {
        "op": "equal",
        "children": [
            {"op": "column", "name": "p", "valueType": "long"},
            {"op": "literal", "value": "1", "valueType": "long"},
        ],
    }
    found = load(numbers, delta_format=FORM[form], jsonPredicateHints=json.dumps(hint))
    assert found == rows(pd.DataFrame({"id": range(10, 20), "p": [1] * 10}))


@FORMATS
def test_older_versions_are_read_by_number_and_by_time(shares: ShareServer, numbers: str, form: str) -> None:
    for version in range(3):
        assert len(load(numbers, delta_format=FORM[form], version=version)) == 10 * (version + 1)
        log = shares.path_of("numbers") / "_delta_log" / f"{version:020}.json"
        moment = datetime.fromtimestamp(log.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
        found = load(numbers, delta_format=FORM[form], timestamp=moment.replace("+00:00", "Z"))
        assert len(found) == 10 * (version + 1)
    assert delta_sharing.get_table_version(numbers) == 2


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_the_change_data_feed(shares: ShareServer, form: str) -> None:
    name = f"feed_{form}"
    folder = str(shares.path_of(name))
    deltalake.write_deltalake(folder, pa.table({"id": [1, 2, 3], "v": ["a", "b", "c"]}), configuration=FEED)
    table = deltalake.DeltaTable(folder)
    table.update(updates={"v": "'x'"}, predicate="id = 2")
    table.delete("id = 3")
    found = delta_sharing.load_table_changes_as_pandas(
        shares.offer(name), starting_version=0, use_delta_format=FORM[form]
    )
    changes = sorted(zip(found["id"], found["v"], found["_change_type"], found["_commit_version"], strict=True))
    assert changes == [
        (1, "a", "insert", 0),
        (2, "b", "insert", 0),
        (2, "b", "update_preimage", 1),
        (2, "x", "update_postimage", 1),
        (3, "c", "delete", 2),
        (3, "c", "insert", 0),
    ]


@FORMATS
def test_odd_partition_values(shares: ShareServer, form: str) -> None:
    name = f"odd_{form}"
    texts = ["a b", "a/b", "a%20b", "a=b", "ü🚢", "a'\"b", "a\u2028b", "#?&", None, "1:2"]
    data = pa.table({"id": list(range(len(texts))), "p": pa.array(texts, pa.string())})
    deltalake.write_deltalake(str(shares.path_of(name)), data, partition_by=["p"])
    expected = rows(pd.DataFrame({"id": range(len(texts)), "p": texts}))
    assert load(shares.offer(name), delta_format=FORM[form]) == expected


@FORMATS
def test_partition_columns_of_every_type(shares: ShareServer, form: str) -> None:
    name = f"types_{form}"
    data = pa.table(
        {
            "id": [1, 2],
            "d": pa.array([date(2024, 2, 29), None]),
            "b": pa.array([True, None]),
            "f": pa.array([1.5, None]),
            "i": pa.array([7, None], pa.int32()),
        }
    )
    deltalake.write_deltalake(str(shares.path_of(name)), data, partition_by=["d", "b", "f", "i"])
    found = delta_sharing.load_as_pandas(shares.offer(name), use_delta_format=FORM[form]).sort_values("id")
    first, second = found.to_dict("records")
    assert (str(first["d"])[:10], bool(first["b"]), float(first["f"]), int(first["i"])) == ("2024-02-29", True, 1.5, 7)
    assert all(pd.isna(second[column]) for column in "dbfi")


@FORMATS
def test_a_column_that_was_added_later_is_null_in_older_files(shares: ShareServer, form: str) -> None:
    name = f"evolved_{form}"
    folder = str(shares.path_of(name))
    deltalake.write_deltalake(folder, pa.table({"id": [1]}))
    deltalake.write_deltalake(folder, pa.table({"id": [2], "v": ["x"]}), mode="append", schema_mode="merge")
    assert load(shares.offer(name), delta_format=FORM[form]) == [(1, None), (2, "x")]


def test_an_empty_table(shares: ShareServer) -> None:
    deltalake.write_deltalake(str(shares.path_of("empty")), pa.table({"id": pa.array([], pa.int64())}))
    deltalake.DeltaTable(str(shares.path_of("empty"))).delete()
    found = delta_sharing.load_as_pandas(shares.offer("empty"))
    assert (list(found.columns), len(found)) == (["id"], 0)


def test_a_partition_filter_hides_rows(shares: ShareServer) -> None:
    data = pa.table({"id": [1, 2, 3], "country": ["de", "us", "fr"]})
    deltalake.write_deltalake(str(shares.path_of("world")), data, partition_by=["country"])
    partitions = [{"values": [{"name": "country", "op": "EQUAL", "value": each}]} for each in ("de", "fr")]
    url = shares.offer("world", partitions=partitions)
    for delta_format in FORM.values():
        assert load(url, delta_format=delta_format) == [(1, "de"), (3, "fr")]
    column = {"op": "column", "name": "country", "valueType": "string"}
    hint = {"op": "equal", "children": [column, {"op": "literal", "value": "us", "valueType": "string"}]}
    assert load(url, jsonPredicateHints=json.dumps(hint)) == []


# --- managed tables --------------------------------------------------------------------------------


def make_managed(shares: ShareServer, name: str) -> tuple[dict[str, Any], Path]:
    staged = shares.unity("POST", "/staging-tables", json={"name": name, "catalog_name": "lake", "schema_name": "sea"})
    folder = write.folder_of(staged["staging_location"])
    now_ms = time.time_ns() // 1_000_000
    properties = write.configuration(staged["id"])
    write.write_first(folder, write.commit_info(now_ms, "CREATE TABLE"), write.protocol(), write.metadata(properties))
    shares.unity(
        "POST",
        "/tables",
        json={
            "name": name,
            "catalog_name": "lake",
            "schema_name": "sea",
            "table_type": "MANAGED",
            "data_source_format": "DELTA",
            "storage_location": staged["staging_location"],
            "properties": {
                "delta.lastUpdateVersion": "0",
                "delta.lastCommitTimestamp": str(now_ms),
                **properties,
            },
        },
    )
    return staged, folder


def append(shares: ShareServer, staged: dict[str, Any], folder: Path, version: int, ids: list[int]) -> None:
    """Commit rows: the client stages the commit, and the catalog ratifies it."""
    path = f"part-{version}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": ids}), sink)
    data = bytes(sink.getvalue())
    (folder / path).write_bytes(data)
    stats = json.dumps({"numRecords": len(ids), "minValues": {"id": min(ids)}, "maxValues": {"id": max(ids)}})
    info = write.stage(folder, version, time.time_ns() // 1_000_000, write.add(path, size=len(data), stats=stats))
    body = {"table_id": staged["id"], "table_uri": staged["staging_location"], "commit_info": info}
    shares.unity("POST", "/delta/commit", json=body)


def test_a_managed_table_with_unpublished_commits(tmp_path: Path) -> None:
    with share_server(tmp_path, "--chores-interval-seconds", "3600") as shares:
        staged, folder = make_managed(shares, "managed")
        for version in range(1, 4):
            append(shares, staged, folder, version, [version * 10, version * 10 + 1])
        url = shares.offer("managed", register=False)
        assert write.published(folder) == [0]
        for delta_format in FORM.values():
            expected = [(id,) for id in (10, 11, 20, 21, 30, 31)]
            assert load(url, delta_format=delta_format) == expected
            assert load(url, delta_format=delta_format, version=1) == expected[:2]


# --- tables that only delta format can express ------------------------------------------------------


@pytest.fixture(scope="module")
def spark_tables(shares: ShareServer, spark: Any) -> ShareServer:
    folder = shares.folder

    def sql(text: str) -> None:
        spark.sql(text).collect()

    def create(name: str, columns: str, *properties: str) -> None:
        stated = ", ".join(
            f"'{each}'" if "=" not in each else "'{}'='{}'".format(*each.split("=")) for each in properties
        )
        sql(f"CREATE TABLE delta.`{folder}/{name}` ({columns}) USING delta TBLPROPERTIES ({stated})")

    vectors = ("delta.enableDeletionVectors=true", "delta.enableChangeDataFeed=true")
    create("vectors", "id BIGINT, v STRING", *vectors)
    sql(f"INSERT INTO delta.`{folder}/vectors` SELECT id, concat('v', id) FROM range(0, 1000, 1, 1)")
    sql(f"DELETE FROM delta.`{folder}/vectors` WHERE id % 3 = 0")
    create("mapped", "id BIGINT, `old name` STRING", "delta.columnMapping.mode=name")
    sql(f"INSERT INTO delta.`{folder}/mapped` VALUES (1, 'a'), (2, 'b')")
    sql(f"ALTER TABLE delta.`{folder}/mapped` RENAME COLUMN `old name` TO fresh")
    sql(f"INSERT INTO delta.`{folder}/mapped` VALUES (3, 'c')")
    create("v2", "id BIGINT", "delta.checkpointPolicy=v2", "delta.checkpointInterval=2")
    for number in range(5):
        sql(f"INSERT INTO delta.`{folder}/v2` VALUES ({number})")
    return shares


def test_rows_removed_by_deletion_vectors_are_not_read(spark_tables: ShareServer) -> None:
    url = spark_tables.offer("vectors")
    expected = [number for number in range(1000) if number % 3]
    for delta_format in (None, True):
        found = delta_sharing.load_as_pandas(url, use_delta_format=delta_format)
        assert sorted(found["id"]) == expected
    changes = delta_sharing.load_table_changes_as_pandas(url, starting_version=1, use_delta_format=True)
    kinds = changes.groupby("_change_type")["id"].count().to_dict()
    assert kinds == {"insert": 1000, "delete": 334}


def test_renamed_columns_are_read_by_their_names(spark_tables: ShareServer) -> None:
    url = spark_tables.offer("mapped")
    for delta_format in (None, True):
        found = delta_sharing.load_as_pandas(url, use_delta_format=delta_format).sort_values("id")
        assert (list(found.columns), list(found["fresh"])) == (["id", "fresh"], ["a", "b", "c"])


def test_a_v2_checkpoint(spark_tables: ShareServer) -> None:
    assert list((spark_tables.path_of("v2") / "_delta_log").glob("*.checkpoint.*"))
    url = spark_tables.offer("v2")
    for delta_format in FORM.values():
        assert load(url, delta_format=delta_format) == [(number,) for number in range(5)]


# --- failures --------------------------------------------------------------------------------------


def test_a_server_that_dies_in_the_middle_never_leaves_a_short_result(tmp_path: Path) -> None:
    """The client gets all files or an error: it must not take the files until then for the whole table."""
    with share_server(tmp_path) as shares:
        log = LogBuilder(shares.path_of("large"))
        log.commit(PROTOCOL, metadata(), *[add(f"{number:06}.parquet") for number in range(100_000)])
        shares.offer("large")
        profile = json.loads(shares.profile.read_text())
        headers = {"authorization": f"Bearer {profile['bearerToken']}"}
        url = f"{profile['endpoint']}/shares/fish/schemas/sea/tables/large/query"
        with (
            httpx.Client(trust_env=False, timeout=60) as client,
            client.stream("POST", url, json={}, headers=headers) as answer,
        ):
            lines = answer.iter_lines()
            for _ in range(1000):
                next(lines)
            shares.server.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
        shares.server.start()
