"""Keys for a table that a caller has staged and not created yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.core.errors import Unavailable
from moorage.storage.s3 import S3Storage
from moorage.storage.s3_account import S3Key
from moorage.testing.minio import MinioServer
from tests.api.control.guarded import Guarded, open_guarded
from tests.api.control.test_grants import ICEBERG, SCHEMA, furnish, grant, use
from tests.api.control.test_job_tokens import take
from tests.api.house import done, on_s3
from tests.api.unity.test_vended_keys import DENIED, _fields

pytestmark = pytest.mark.xdist_group("s3")


async def test_a_token_for_reading_and_that_of_a_job_do_not_write_to_a_staged_table(
    minio: MinioServer, tmp_path: Path
) -> None:
    place = f"s3://{minio.new_bucket()}/lake/"
    async with open_guarded(tmp_path / "data", **on_s3(minio, place)) as guarded:
        await furnish(guarded)
        token = await guarded.user("worker")
        await use(guarded, "worker")
        await grant(guarded, "schema", "lake.sea", "worker", "CREATE TABLE")
        await grant(guarded, "metastore", "main", "worker", "RUN JOBS")
        job = (await take(guarded, token))["token"]
        staged = {"name": "new", "schema": SCHEMA, "stage-create": True}
        location = done(await guarded.ask(token, "POST", ICEBERG, staged))["metadata"]["location"] + "/"
        assert await (await _opened(guarded, minio, token, place)).put_new(location, "a", b"1")
        reading = await guarded.token("worker", scope="read")
        store = await _opened(guarded, minio, reading, place)
        assert await store.read(location, "a", limit=10) == b"1"
        with pytest.raises(Unavailable, match=DENIED):
            await store.put_new(location, "b", b"1")
        assert await guarded.status(job, "GET", f"{ICEBERG}/new/credentials") == 404


async def _opened(guarded: Guarded, minio: MinioServer, token: str, place: str) -> S3Storage:
    """The store as a client with the keys of the staged table sees it."""
    (found,) = done(await guarded.ask(token, "GET", f"{ICEBERG}/new/credentials"))["storage-credentials"]
    config: dict[str, Any] = found["config"]
    key = S3Key(
        access_key_id=config["s3.access-key-id"],
        secret_access_key=config["s3.secret-access-key"],
        token=config["s3.session-token"],
    )
    account = minio.account(place)
    return S3Storage(type(account)(**{**_fields(account), "key": key}))
