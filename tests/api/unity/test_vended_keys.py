"""Keys for the files of one object in an object store: what they open, and what they do not."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from moorage.core.errors import Unavailable
from moorage.storage import s3_sessions
from moorage.storage.s3 import S3Storage
from moorage.storage.s3_account import S3Key
from moorage.testing.minio import PASSWORD, MinioServer
from moorage.testing.storage_kit import MUCH
from tests.api.delta.delta_client import TABLES, DeltaClient, ok
from tests.api.house import House, done, on_s3, open_house
from tests.api.unity.unity import IN_S, Unity, invalid, refused

pytestmark = pytest.mark.xdist_group("s3")

SOAK = os.environ.get("MOORAGE_SOAK") == "1"
DENIED = "AccessDenied|Access Denied|403"


@pytest.fixture
def location(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


@pytest.fixture
async def house(minio: MinioServer, location: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "data", **on_s3(minio, location)) as house:
        yield house


@pytest.fixture
async def uc(house: House) -> Unity:
    uc = Unity(house.console.http)
    await uc.schema()
    return uc


async def ask(uc: Unity, what: str, **body: Any) -> Any:
    return await uc.post(f"/temporary-{what}-credentials", body)


def opened(minio: MinioServer, credentials: dict[str, Any], *roots: str) -> S3Storage:
    """The store as the client of a key sees it."""
    key = credentials["aws_temp_credentials"]
    assert (key["endpoint"], key["path_style"]) == (minio.endpoint, True)
    names = ("access_key_id", "secret_access_key")
    account = minio.account(*roots)
    own = S3Key(**{name: key[name] for name in names}, token=key["session_token"])
    return S3Storage(type(account)(**{**_fields(account), "key": own}))


def _fields(account: Any) -> dict[str, Any]:
    return {name: getattr(account, name) for name in account.__struct_fields__}


async def test_the_key_of_a_table_opens_this_table_and_nothing_else(
    house: House, uc: Unity, minio: MinioServer, location: str
) -> None:
    own = await uc.external("t1", f"{location}own/t1")
    await uc.external("t10", f"{location}own/t10")
    other = f"s3://{minio.new_bucket()}/lake/"
    admin = S3Storage(minio.account(location, other))
    for root in (f"{location}own/t1/", f"{location}own/t10/", f"{location}own/", other):
        await admin.put_new(root, "a", b"1")
    everything = (location, other)

    written = done(await ask(uc, "table", table_id=own["table_id"], operation="READ_WRITE"))
    assert (written["url"], written["gcp_oauth_token"]) == (f"{location}own/t1", None)
    assert written["expiration_time"] > time.time() * 1000
    store = opened(minio, written, *everything)
    assert await store.read(f"{location}own/t1/", "a", limit=MUCH) == b"1"
    assert await store.put_new(f"{location}own/t1/", "b", b"2")
    assert [each.path for each in await store.list(f"{location}own/t1/", "")] == ["a", "b"]
    await store.delete(f"{location}own/t1/", "b")
    for root in (f"{location}own/t10/", f"{location}own/", other):
        for attempt in (store.read(root, "a", limit=MUCH), store.put_new(root, "new", b""), store.list(root, "")):
            with pytest.raises(Unavailable, match=DENIED):
                await attempt

    read = done(await ask(uc, "table", table_id=own["table_id"], operation="READ"))
    store = opened(minio, read, *everything)
    assert await store.read(f"{location}own/t1/", "a", limit=MUCH) == b"1"
    with pytest.raises(Unavailable, match=DENIED):
        await store.put_new(f"{location}own/t1/", "c", b"")
    with pytest.raises(Unavailable, match=DENIED):
        await store.delete(f"{location}own/t1/", "a")
    again = await ask(uc, "table", table_id=own["table_id"], operation="READ")
    assert done(again) == read, "a key is used for half of its lifetime"
    assert again.headers["cache-control"] == "no-store"


@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore:The HMAC key is:jwt.warnings.InsecureKeyLengthWarning")
async def test_a_key_ends_when_the_answer_says(
    uc: Unity, minio: MinioServer, location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a session of MinIO is a claim of its token, which MinIO has signed and checks with every request.

    MOORAGE_SOAK=1 waits for it. The shortest session of MinIO lasts 15 minutes.
    """
    lifetime = 900 if SOAK else s3_sessions._SESSION_SECONDS
    monkeypatch.setattr(s3_sessions, "_SESSION_SECONDS", lifetime)
    own = await uc.external("t1", f"{location}own/t1")
    await S3Storage(minio.account(location)).put_new(f"{location}own/t1/", "a", b"1")
    found = done(await ask(uc, "table", table_id=own["table_id"], operation="READ"))
    key = found["aws_temp_credentials"]
    claims = jwt.decode(key["session_token"], PASSWORD, algorithms=["HS512"])
    assert claims["exp"] == found["expiration_time"] // 1000
    assert abs(claims["exp"] - time.time() - lifetime) < 300
    longer = jwt.encode({**claims, "exp": claims["exp"] + 3600}, PASSWORD, algorithm="HS512")
    for token, is_valid in ((key["session_token"], True), (longer, False)):
        store = opened(minio, {**found, "aws_temp_credentials": {**key, "session_token": token}}, location)
        if is_valid:
            assert await store.read(f"{location}own/t1/", "a", limit=MUCH) == b"1"
        else:
            with pytest.raises(Unavailable, match="InvalidTokenId"):
                await store.read(f"{location}own/t1/", "a", limit=MUCH)
    if SOAK:
        store = opened(minio, found, location)
        await asyncio.sleep(claims["exp"] - time.time() - 30)
        assert await store.read(f"{location}own/t1/", "a", limit=MUCH) == b"1"
        await asyncio.sleep(claims["exp"] - time.time() + 2)
        with pytest.raises(Unavailable, match=r"InvalidAccessKeyId|403"):
            await store.read(f"{location}own/t1/", "a", limit=MUCH)


async def test_volumes_and_model_versions_have_keys_of_their_own(uc: Unity, minio: MinioServer, location: str) -> None:
    volume = done(await uc.post("/volumes", {"name": "v", **IN_S, "volume_type": "MANAGED"}))
    done(await uc.post("/models", {"name": "m", **IN_S}))
    version = done(await uc.post("/models/versions", {"model_name": "m", **IN_S, "source": "s"}))
    roots = [f"{each['storage_location']}/" for each in (volume, version)]
    named = {**IN_S, "model_name": "m", "version": 1}
    keys = [
        done(await ask(uc, "volume", volume_id=volume["volume_id"], operation="WRITE_VOLUME")),
        done(await ask(uc, "model-version", **named, operation="READ_WRITE_MODEL_VERSION")),
    ]
    for root, other, key in zip(roots, reversed(roots), keys, strict=True):
        store = opened(minio, key, location)
        assert await store.put_new(root, "f", b"x")
        with pytest.raises(Unavailable, match=DENIED):
            await store.put_new(other, "f", b"x")
    reader = opened(
        minio, done(await ask(uc, "volume", volume_id=volume["volume_id"], operation="READ_VOLUME")), location
    )
    with pytest.raises(Unavailable, match=DENIED):
        await reader.put_new(roots[0], "g", b"")


async def test_no_key_for_a_path_writes_to_a_finalized_version(uc: Unity) -> None:
    done(await uc.post("/models", {"name": "m", **IN_S}))
    version = done(await uc.post("/models/versions", {"model_name": "m", **IN_S, "source": "s"}))
    done(await uc.patch("/models/lake.s.m/versions/1/finalize", {}))
    folder = version["storage_location"]
    assert "expiration_time" in done(await ask(uc, "path", url=folder, operation="PATH_READ"))
    for operation in ("PATH_READ_WRITE", "PATH_CREATE_TABLE"):
        refused(await ask(uc, "path", url=folder, operation=operation), 403, "PERMISSION_DENIED")


async def test_a_folder_has_a_key_unless_it_is_in_use_or_outside(
    house: House, uc: Unity, minio: MinioServer, location: str
) -> None:
    free = done(await ask(uc, "path", url=f"{location}new/x", operation="PATH_CREATE_TABLE"))
    assert await opened(minio, free, location).put_new(f"{location}new/x/", "f", b"")
    await uc.external("t1", f"{location}own/t1")
    inside = done(await ask(uc, "path", url=f"{location}own/t1/part=1", operation="PATH_READ"))
    with pytest.raises(Unavailable, match=DENIED):
        await opened(minio, inside, location).read(f"{location}own/t1/", "a", limit=MUCH)
    refused(await ask(uc, "path", url=f"{location}own", operation="PATH_READ"), 403, "PERMISSION_DENIED")
    await uc.external("t0", f"{location}own/t0")
    done(await uc.delete("/tables/lake.s.t0"))
    refused(await ask(uc, "path", url=f"{location}own", operation="PATH_READ"), 403, "PERMISSION_DENIED")
    done(await ask(uc, "path", url=f"{location}own/t0", operation="PATH_READ"))  # dropped, and not managed
    staged = done(await uc.post("/staging-tables", {"name": "new", **IN_S}, caller="ann"))
    body = {"url": staged["staging_location"], "operation": "PATH_READ_WRITE"}
    done(await uc.post("/temporary-path-credentials", body, caller="ann"))
    refused(await uc.post("/temporary-path-credentials", body, caller="eve"), 403, "PERMISSION_DENIED")
    house.access.locked_out.add("bob")
    answer = await uc.post(
        "/temporary-path-credentials", {"url": f"{location}own/t1", "operation": "PATH_READ"}, caller="bob"
    )
    refused(answer, 403, "PERMISSION_DENIED")
    sibling = location.removesuffix("/") + "2/x"
    for outside in (sibling, f"s3://{minio.new_bucket()}/lake/x", "gs://b/x", "abfss://c@a.dfs.core.windows.net/x"):
        refused(await ask(uc, "path", url=outside, operation="PATH_READ"), 400, "UNIMPLEMENTED")
    managed = f"{location}managed/tables/x"
    for wrong in (f"{location}a/../b", f"{location}a/%2e%2e/b", f"s3://{minio.new_bucket()}", managed):
        assert "url" in invalid(await ask(uc, "path", url=wrong, operation="PATH_READ"))


async def test_a_managed_table_is_staged_and_committed_with_vended_keys_only(
    house: House, minio: MinioServer, location: str, tmp_path: Path
) -> None:
    client = DeltaClient(house.console.http, "v1")
    await client.furnish()
    made = ok(await client.http.post(f"{TABLES.removesuffix('tables')}staging-tables", json={"name": "t"}))
    (credential,) = made["storage-credentials"]
    assert (credential["prefix"], credential["operation"]) == (made["location"], "READ_WRITE")
    assert credential["expiration-time-ms"] > time.time() * 1000
    assert set(credential["config"]) == {"s3.access-key-id", "s3.secret-access-key", "s3.session-token"}
    again = await client.http.get(f"/api/2.1/unity-catalog/delta/v1/staging-tables/{made['table-id']}/credentials")
    assert ok(again)["storage-credentials"] == made["storage-credentials"]
