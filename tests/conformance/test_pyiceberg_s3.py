"""PyIceberg with tables in an object store, and without a key to it: the server signs its requests or vends a key."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import SignError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.utils.concurrent import ExecutorFactory

from moorage.storage.s3 import S3Storage
from moorage.testing.minio import PASSWORD, USER, MinioServer
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.conformance.lakes import pyiceberg_of, s3_lake_server, send_request

pytestmark = [
    pytest.mark.xdist_group("s3"),
    # Its signer and s3fs leave their connections to the garbage collector.
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["Oslo", "Rome", "Kyiv"]})


@pytest.fixture(autouse=True)
def one_worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyIceberg 0.12 sends an unsigned request if two of its threads use a table for the first time concurrently."""
    with ThreadPoolExecutor(max_workers=1) as executor:
        monkeypatch.setattr(ExecutorFactory, "_instance", executor)
        monkeypatch.setattr(ExecutorFactory, "_instance_pid", os.getpid())
        yield


@pytest.fixture(scope="module")
def location(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


@pytest.fixture(scope="module")
def server(minio: MinioServer, location: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data: Path = tmp_path_factory.mktemp("s3") / "data"
    with s3_lake_server(data, minio, location) as server:
        yield server


@pytest.fixture
def catalog(server: ServerProcess, request: pytest.FixtureRequest) -> RestCatalog:
    catalog = pyiceberg_of(server, **{"header.X-Iceberg-Access-Delegation": "remote-signing"})
    catalog.create_namespace(request.node.name)
    return catalog


@pytest.fixture
def vended(server: ServerProcess, request: pytest.FixtureRequest) -> RestCatalog:
    """PyIceberg as it comes: it requests vended credentials, and reads and writes with pyarrow."""
    catalog = pyiceberg_of(server)
    catalog.create_namespace(request.node.name)
    return catalog


@pytest.fixture
def space(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


def test_a_client_without_a_key_writes_reads_deletes_and_purges(
    catalog: RestCatalog, space: str, minio: MinioServer, location: str
) -> None:
    table = catalog.create_table((space, "orders"), schema=ROWS.schema)
    assert table.location().startswith(location)
    assert not [name for name in table.io.properties if any(word in name for word in ("key", "secret", "session"))]
    table.append(ROWS)
    table.delete("id = 2")
    loaded = catalog.load_table((space, "orders"))
    assert loaded.scan().to_arrow().sort_by("id").to_pydict() == {"id": [1, 3], "city": ["Oslo", "Kyiv"]}

    root = f"{table.location()}/"
    storage = S3Storage(minio.account(location))
    assert [each for each in asyncio.run(storage.list(root, "data/")) if each.path.endswith(".parquet")]
    catalog.purge_table((space, "orders"))
    deadline = time.monotonic() + 60
    while asyncio.run(storage.list(root, "")):
        assert time.monotonic() < deadline, "the files of a purged table were not deleted"
        time.sleep(0.1)


def test_a_table_is_created_together_with_its_first_rows(catalog: RestCatalog, space: str) -> None:
    with catalog.create_table_transaction((space, "staged"), schema=ROWS.schema) as transaction:
        transaction.append(ROWS)
    assert catalog.load_table((space, "staged")).scan().to_arrow().num_rows == 3


def test_partitions_with_special_characters_are_written_and_read(catalog: RestCatalog, space: str) -> None:
    odd = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "city": ["São Paulo/ü", "a=b&c+d%20?#", "日本"]})
    table = catalog.create_table((space, "odd names"), schema=odd.schema)
    with table.update_spec() as spec:
        spec.add_identity("city")
    table.append(odd)
    assert table.scan().to_arrow().sort_by("id").to_pydict() == odd.to_pydict()
    assert table.scan(row_filter="city == '日本'").to_arrow()["id"].to_pylist() == [3]


def test_the_file_of_another_table_is_not_signed(catalog: RestCatalog, space: str) -> None:
    mine = catalog.create_table((space, "mine"), schema=ROWS.schema)
    theirs = catalog.create_table((space, "theirs"), schema=ROWS.schema)
    theirs.append(ROWS)
    file = next(iter(theirs.scan().plan_files())).file.file_path
    with theirs.io.new_input(file).open() as stream:
        assert stream.read(4) == b"PAR1"
    with pytest.raises(SignError, match="403"), mine.io.new_input(file).open() as stream:
        stream.read(4)
    with pytest.raises(SignError, match="403"), mine.io.new_output(f"{theirs.location()}/x").create() as output:
        output.write(b"x")
    theirs.append(ROWS)
    assert theirs.scan().to_arrow().num_rows == 6


def test_a_signature_is_valid_only_for_the_request_it_was_made_for(
    catalog: RestCatalog, space: str, server: ServerProcess, minio: MinioServer
) -> None:
    table = catalog.create_table((space, "orders"), schema=ROWS.schema)
    bucket, _, folder = table.location().removeprefix("s3://").partition("/")
    urls = [f"{minio.endpoint}/{bucket}/{folder}/{file}" for file in ("a", "b")]

    def signed(method: str, uri: str) -> dict[str, str]:
        request: dict[str, Any] = {"region": "any", "uri": uri, "method": method, "headers": {}}
        path = f"/iceberg/v1/lake/namespaces/{space}/tables/orders/sign"
        return {name: values[0] for name, values in send_request(server, "POST", path, json=request)["headers"].items()}

    def send(method: str, uri: str, headers: dict[str, str], body: str = "") -> int:
        return httpx.request(
            method, uri, headers=headers, content=body.encode(), trust_env=False, timeout=60
        ).status_code

    for url in urls:
        assert send("PUT", url, signed("PUT", url), "0123456789") == 200
    reading = signed("GET", urls[0])
    assert send("GET", urls[0], reading) == 200
    assert send("GET", urls[0], {**reading, "range": "bytes=2-3"}) == 206
    assert send("GET", urls[1], reading) == 403
    assert send("PUT", urls[0], reading, "other") == 403
    assert send("DELETE", urls[0], reading) == 403

    # MinIO lets a client add headers to a signed request, but refuses them here: the key has no access to other tables.
    other = catalog.create_table((space, "other"), schema=ROWS.schema)
    other.append(ROWS)
    foreign = next(iter(other.scan().plan_files())).file.file_path.removeprefix("s3://")
    writing = signed("PUT", urls[0])
    assert send("PUT", urls[0], {**writing, "x-amz-copy-source": f"/{bucket}/{folder}/b"}) == 200
    assert send("PUT", urls[0], {**writing, "x-amz-copy-source": f"/{foreign}"}) == 403
    many = f"{minio.endpoint}/{bucket}?delete"
    deletion = "<Delete><Object><Key>{}</Key></Object></Delete>"
    for key, is_kept in ((foreign.partition("/")[2], True), (f"{folder}/a", False)):
        body = deletion.format(key)
        md5 = base64.b64encode(hashlib.md5(body.encode()).digest()).decode()
        send("POST", many, {**signed("POST", many), "content-md5": md5}, body)
        storage = S3Storage(minio.account(f"s3://{bucket}/"))
        assert (asyncio.run(storage.size(f"s3://{bucket}/", key)) is not None) is is_kept


def test_a_client_with_a_vended_key_writes_reads_stages_and_deletes(vended: RestCatalog, space: str) -> None:
    table = vended.create_table((space, "orders"), schema=ROWS.schema)
    assert isinstance(table.io, PyArrowFileIO)
    table.append(ROWS)
    table.delete("id = 2")
    loaded = vended.load_table((space, "orders"))
    assert loaded.scan().to_arrow().sort_by("id").to_pydict() == {"id": [1, 3], "city": ["Oslo", "Kyiv"]}
    with vended.create_table_transaction((space, "staged"), schema=ROWS.schema) as transaction:
        transaction.append(ROWS)
    assert vended.load_table((space, "staged")).scan().to_arrow().num_rows == 3
    assert "s3.session-token" in vended.load_credentials((space, "orders"), table.metadata_location)


def test_a_client_keeps_its_own_key_if_it_requests_no_access(server: ServerProcess, space: str) -> None:
    own = {"s3.access-key-id": USER, "s3.secret-access-key": PASSWORD, "header.X-Iceberg-Access-Delegation": ""}
    catalog = pyiceberg_of(server, **own)
    catalog.create_namespace(space)
    table = catalog.create_table((space, "orders"), schema=ROWS.schema)
    table.append(ROWS)
    assert catalog.load_table((space, "orders")).scan().to_arrow().num_rows == 3
    assert (table.io.properties["s3.access-key-id"], "s3.session-token" in table.io.properties) == (USER, False)


def test_a_vended_key_does_not_open_another_table(vended: RestCatalog, space: str) -> None:
    mine = vended.create_table((space, "mine"), schema=ROWS.schema)
    theirs = vended.create_table((space, "theirs"), schema=ROWS.schema)
    theirs.append(ROWS)
    file = next(iter(theirs.scan().plan_files())).file.file_path
    with pytest.raises(OSError, match="ACCESS_DENIED"), mine.io.new_input(file).open() as stream:
        stream.read(4)
    with (
        pytest.raises(OSError, match="ACCESS_DENIED"),
        mine.io.new_output(f"{theirs.location()}/x").create(overwrite=True) as output,
    ):
        output.write(b"x")
    assert theirs.scan().to_arrow().num_rows == 3


def test_forty_new_tables_are_written_and_read_in_parallel(
    vended: RestCatalog, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows_of_new_table(number: int) -> int:
        vended.create_table((space, f"t{number}"), schema=ROWS.schema).append(ROWS)
        return len(vended.load_table((space, f"t{number}")).scan().to_arrow())

    with ThreadPoolExecutor(max_workers=8) as many, ThreadPoolExecutor(max_workers=8) as executor:
        monkeypatch.setattr(ExecutorFactory, "_instance", executor)
        assert list(many.map(rows_of_new_table, range(40))) == [3] * 40


def test_a_server_whose_bucket_does_not_exist_exits_with_one_line(minio: MinioServer, tmp_path: Path) -> None:
    result = subprocess.run(
        [*COMMAND, "serve", "--data", str(tmp_path / "data"), "--port", "0"],
        env=clean_environment(**minio.settings("s3://no-such-bucket/lake")),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout) == (1, "")
    reason = "NoSuchBucket: The specified bucket does not exist; check s3_endpoint, s3_locations and the key"
    assert result.stderr == f"moorage: cannot use s3://no-such-bucket/lake/ at {minio.endpoint}: {reason}\n"
    assert PASSWORD not in result.stderr
