"""S3 keeps the storage contract, and reports in one line why it cannot be reached."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from moorage.core.errors import Unavailable
from moorage.storage.s3 import S3Storage
from moorage.storage.s3_account import S3Key
from moorage.testing.minio import PASSWORD, USER, MinioServer
from moorage.testing.storage_kit import MUCH, StorageKit

pytestmark = pytest.mark.xdist_group("s3")


class TestS3(StorageKit):
    @pytest.fixture
    def base(self, minio: MinioServer) -> str:
        return f"s3://{minio.new_bucket()}/lake/"

    @pytest.fixture
    def storage(self, minio: MinioServer, base: str) -> S3Storage:
        return S3Storage(minio.account(base))

    async def test_many_objects_are_listed_and_deleted_page_by_page(self, storage: S3Storage, root: str) -> None:
        await asyncio.gather(*[storage.put_new(root, f"log/{n:05d}", b"x") for n in range(1100)])
        assert len(await storage.list(root, "log/")) == 1100
        assert [each.path for each in await storage.list(root, "log/", after="log/01097")] == ["log/01098", "log/01099"]
        await storage.delete_all(root)
        assert await storage.list(root, "") == ()


async def test_aws_variables_in_the_environment_are_ignored(
    minio: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
        monkeypatch.setenv(name, "another")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    base = f"s3://{minio.new_bucket()}/"
    storage = S3Storage(minio.account(base))
    assert await storage.put_new(f"{base}t/", "a", b"x")
    assert await storage.read(f"{base}t/", "a", limit=MUCH) == b"x"


async def test_the_error_for_an_unreachable_bucket_is_one_line(minio: MinioServer) -> None:
    base = f"s3://{minio.new_bucket()}/"
    good = minio.account(base)
    await S3Storage(good).reach()
    for broken, words in (
        (replace(good, key=S3Key(access_key_id=USER, secret_access_key="wrong" + PASSWORD)), "SignatureDoesNotMatch"),
        (replace(good, locations=("s3://no-such-bucket/lake/",)), "NoSuchBucket"),
        (replace(good, endpoint="http://127.0.0.1:1"), "127.0.0.1:1"),
    ):
        with pytest.raises(Unavailable) as refusal:
            await S3Storage(broken).reach()
        assert words in refusal.value.message
        assert broken.locations[0] in refusal.value.message
        assert refusal.value.message.endswith("; check s3_endpoint, s3_locations and the key")
        assert "\n" not in refusal.value.message
        assert PASSWORD not in refusal.value.message
