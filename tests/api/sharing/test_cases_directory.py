"""Case D: keys for the folder of a table, and presigned URLs, in an object store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.core.errors import MoorageError
from moorage.storage.s3 import S3Storage
from moorage.storage.s3_account import S3Key
from moorage.testing.minio import MinioServer
from moorage.testing.storage_kit import MUCH
from tests.api.house import on_s3
from tests.api.sharing.logs import commit
from tests.api.sharing.provider import (
    DELTA,
    Provider,
    Recipient,
    at,
    equal,
    error_of,
    files_of,
    lines_of,
    open_provider,
)
from tests.snapshots.log_builder import PROTOCOL, add, metadata

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture
def location(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


@pytest.fixture
async def provider(minio: MinioServer, location: str, tmp_path: Path) -> AsyncIterator[Provider]:
    """Tables are in the object store: the log is written to the disk, and then uploaded."""
    async with open_provider(tmp_path, **on_s3(minio, location)) as provider:
        described = metadata({"id": "long", "p": "string"}, partitions=["p"])
        file = add("p=a%2520b/x%C3%BC.bin", size=5, partitionValues={"p": "a b"})
        commit(provider.log(), PROTOCOL, described, file)
        storage = S3Storage(minio.account(location))
        for root in ("t", "t1"):
            for path in (provider.folder / "t").rglob("*.json"):
                key = str(path.relative_to(provider.folder / "t"))
                await storage.put_new(f"{location}{root}/", key, path.read_bytes())
            await storage.put_new(f"{location}{root}/", "p=a%20b/xü.bin", b"12345")
        yield provider


async def credentials(recipient: Recipient, body: Any = None, table: str = "t") -> httpx.Response:
    return await recipient.post(f"{at(table)}/temporary-table-credentials", body)


async def test_a_file_in_an_object_store_gets_a_presigned_url(
    provider: Provider, recipient: Recipient, location: str
) -> None:
    await provider.offer(location=f"{location}t/", partitions=(equal(p="a b"),))
    for headers in ({}, DELTA):
        (file,) = files_of(lines_of(await recipient.post(f"{at('t')}/query", headers=headers)))
        url = file["url"] if not headers else file["deltaSingleAction"]["add"]["path"]
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(url)).content == b"12345"
            part = await client.get(url, headers={"range": "bytes=1-2"})
            assert (part.status_code, part.content) == (206, b"23")
            assert (await client.put(url, content=b"x")).status_code == 403
            assert (await client.get(url.replace("/t/", "/t1/"))).status_code == 403


async def test_case_d1_listing_and_metadata_agree_on_the_access_modes(
    provider: Provider, recipient: Recipient, location: str
) -> None:
    await provider.offer(location=f"{location}t/")
    (listed,) = (await recipient.get("/shares/fish/all-tables")).json()["items"]
    stated = lines_of(await recipient.get(f"{at('t')}/metadata"))[1]["metaData"]
    for found in (listed, stated):
        assert (found["accessModes"], found["location"]) == (["url", "dir"], f"{location}t/")


async def test_case_d2_and_d3_a_key_for_the_table(provider: Provider, recipient: Recipient, location: str) -> None:
    await provider.offer(location=f"{location}t/")
    bodies: tuple[Any, ...] = ({}, b"")
    for body in bodies:
        answer = await credentials(recipient, body)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        (found,) = answer.json().values()
        assert set(found) == {"location", "expirationTime", "awsTempCredentials"}
        assert found["location"] == f"{location}t/"
    for malformed in (b"{", b"[]", b'{"location":5}'):
        error_of(await credentials(recipient, malformed), 400, "MALFORMED_REQUEST")


async def test_case_d4_to_d6_a_key_is_for_the_table_or_a_folder_below(
    provider: Provider, recipient: Recipient, location: str
) -> None:
    await provider.offer(location=f"{location}t/")
    root = f"{location}t"
    for stated in (root, f"{root}/", root.replace("s3://", "s3a://"), f"{root}/p=a%20b"):
        for name in ("location", "auxiliaryLocation"):
            assert (await credentials(recipient, {name: stated})).status_code == 200, stated
    for stated in (location, f"{root}1", f"{root}/../t1", f"{root}/..", "s3://other/t", "file:///etc", "x"):
        error_of(await credentials(recipient, {"location": stated}), 400)


@pytest.mark.parametrize(
    "given", [{"history": False}, {"partitions": (equal(p="a b"),)}, {"start_version": 0}, {"location": None}]
)
async def test_case_d7_and_d8_a_folder_that_contains_more_than_is_shared_is_not_offered(
    provider: Provider, recipient: Recipient, location: str, given: dict[str, Any]
) -> None:
    await provider.offer(**{"location": f"{location}t/", **given})
    (listed,) = (await recipient.get("/shares/fish/all-tables")).json()["items"]
    assert (listed["accessModes"], "location" in listed) == (["url"], False)
    error_of(await credentials(recipient), 400, "UNSUPPORTED_OPERATION")


async def test_case_d9_a_key_reads_the_table_and_nothing_else(
    provider: Provider, recipient: Recipient, location: str, minio: MinioServer
) -> None:
    await provider.offer(location=f"{location}t/")
    key = (await credentials(recipient)).json()["credentials"]["awsTempCredentials"]
    account = minio.account(location)
    vended = S3Key(
        access_key_id=key["accessKeyId"], secret_access_key=key["secretAccessKey"], token=key["sessionToken"]
    )
    client = S3Storage(type(account)(**{**{f: getattr(account, f) for f in account.__struct_fields__}, "key": vended}))
    assert await client.read(f"{location}t/", "p=a%20b/xü.bin", limit=MUCH) == b"12345"
    for attempt in (
        client.read(f"{location}t1/", "p=a%20b/xü.bin", limit=MUCH),
        client.put_new(f"{location}t/", "new", b"x"),
        client.delete(f"{location}t/", "p=a%20b/xü.bin"),
    ):
        with pytest.raises(MoorageError):
            await attempt


async def test_case_d10_a_table_with_a_folder_can_be_read_by_url_too(
    provider: Provider, recipient: Recipient, location: str
) -> None:
    """No table is offered by folder only, so a query is never refused for that."""
    await provider.offer(location=f"{location}t/")
    (listed,) = (await recipient.get("/shares/fish/all-tables")).json()["items"]
    assert listed["accessModes"] == ["url", "dir"]
    for modes in ("", ";accessmodes=url,dir", ";accessmodes=dir"):
        headers = {"delta-sharing-capabilities": f"responseformat=parquet{modes}"}
        assert len(files_of(lines_of(await recipient.post(f"{at('t')}/query", headers=headers)))) == 1
