"""Privileges on one external location: what a user may do there, and not in another one."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moorage.core.errors import Unavailable
from moorage.storage.s3 import S3Storage
from moorage.testing.minio import MinioServer
from moorage.testing.storage_kit import MUCH
from tests.api.control.guarded import UNITY, Guarded, open_guarded
from tests.api.house import done, on_s3
from tests.api.unity.test_external_locations import key_of
from tests.api.unity.test_vended_keys import DENIED, opened
from tests.api.unity.unity import IN_S, external

pytestmark = pytest.mark.xdist_group("s3")

KEY = base64.b64encode(b"k" * 32).decode()


@pytest.fixture
def bucket(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}"


@pytest.fixture
async def guarded(minio: MinioServer, tmp_path: Path, bucket: str) -> AsyncIterator[Guarded]:
    """Two external locations, one with a name that begins with the other's, and a user who may create in lake.s."""
    settings = {**on_s3(minio, f"s3://{minio.new_bucket()}/"), "secret_key": KEY}
    async with open_guarded(tmp_path / "data", **settings) as guarded:
        await guarded.run("POST", f"{UNITY}/catalogs", {"name": "lake"})
        await guarded.run("POST", f"{UNITY}/schemas", {"name": "s", "catalog_name": "lake"})
        await guarded.run("POST", f"{UNITY}/credentials", key_of(minio))
        for name in ("t1", "t10"):
            body = {"name": name, "url": f"{bucket}/{name}", "credential_name": "vault"}
            await guarded.run("POST", f"{UNITY}/external-locations", body)
        await guarded.user("ann")
        await grant(guarded, "catalog/lake", "USE CATALOG", "USE SCHEMA", "CREATE TABLE", "CREATE VOLUME")
        yield guarded


async def grant(guarded: Guarded, target: str, *privileges: str) -> None:
    body = {"changes": [{"principal": "ann", "add": privileges}]}
    await guarded.run("PATCH", f"{UNITY}/permissions/{target}", body)


async def revoke(guarded: Guarded, target: str, *privileges: str) -> None:
    body = {"changes": [{"principal": "ann", "remove": privileges}]}
    await guarded.run("PATCH", f"{UNITY}/permissions/{target}", body)


async def test_keys_for_files_need_a_privilege_on_their_location(
    guarded: Guarded, minio: MinioServer, bucket: str
) -> None:
    ann = await guarded.token("ann")

    async def ask(folder: str, operation: str) -> Any:
        body = {"url": f"{bucket}/{folder}", "operation": operation}
        return await guarded.ask(ann, "POST", f"{UNITY}/temporary-path-credentials", body)

    async def states(*folders: str, operation: str) -> list[int]:
        return [(await ask(folder, operation)).status_code for folder in folders]

    folders = ("t1/x", "t10/x")
    hidden = [(await ask(folder, "PATH_READ")).text for folder in (*folders, "no-location")]
    assert len(set(hidden)) == 1, "a location on which the caller holds nothing is as if there were none"
    assert await states(*folders, operation="PATH_READ") == [403, 403]
    await grant(guarded, "external_location/t1", "READ FILES")
    assert await states(*folders, operation="PATH_READ") == [200, 403]
    assert await states(*folders, operation="PATH_READ_WRITE") == [403, 403]
    await grant(guarded, "external_location/t1", "WRITE FILES")
    assert await states(*folders, operation="PATH_READ_WRITE") == [200, 403]
    store = opened(minio, done(await ask("t1/x", "PATH_READ_WRITE")), f"{bucket}/")
    assert await store.put_new(f"{bucket}/t1/x/", "f", b"1")
    assert await store.read(f"{bucket}/t1/x/", "f", limit=MUCH) == b"1"
    for outside in (f"{bucket}/t1/", f"{bucket}/t1/x2/", f"{bucket}/t10/x/"):
        with pytest.raises(Unavailable, match=DENIED):
            await store.put_new(outside, "f", b"1")
    await revoke(guarded, "external_location/t1", "READ FILES", "WRITE FILES")
    assert await states(*folders, operation="PATH_READ") == [403, 403]


async def test_tables_volumes_and_roots_need_a_privilege_on_their_location(guarded: Guarded, bucket: str) -> None:
    ann = await guarded.token("ann")
    await grant(guarded, "metastore/main", "CREATE CATALOG")

    def requests(folder: str, name: str) -> dict[str, tuple[str, Any]]:
        volume = {**IN_S, "name": name, "volume_type": "EXTERNAL", "storage_location": f"{bucket}/{folder}/volume"}
        return {
            "CREATE EXTERNAL TABLE": (f"{UNITY}/tables", external(name, f"{bucket}/{folder}/table")),
            "CREATE EXTERNAL VOLUME": (f"{UNITY}/volumes", volume),
            "CREATE MANAGED STORAGE": (
                f"{UNITY}/catalogs",
                {"name": name, "storage_root": f"{bucket}/{folder}/root"},
            ),
        }

    async def allowed(folder: str, name: str, *, is_hidden: bool = False) -> list[str]:
        found = []
        for privilege, request in requests(folder, name).items():
            answer = await guarded.ask(ann, "POST", *request)
            assert answer.status_code in (200, 403), answer.text
            if answer.is_success:
                found.append(privilege)
            else:
                where = "the metastore" if is_hidden else "external_location 't1'"
                assert f"{privilege} on {where}" in answer.text or "CREATE EXTERNAL TABLE" in answer.text
                assert "t10" not in answer.json()["message"]
        return found

    assert await allowed("t1", "none", is_hidden=True) == []
    outside = {"name": "out", "storage_root": f"{bucket}/outside"}
    answers = [await guarded.ask(token, "POST", f"{UNITY}/catalogs", outside) for token in (ann, guarded.admin)]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert [f"{bucket}/t1" in answer.text for answer in answers] == [False, True], "locations that the caller may see"
    await grant(guarded, "external_location/t1", "CREATE EXTERNAL VOLUME")
    assert await allowed("t1/a", "a") == ["CREATE EXTERNAL VOLUME"]
    await grant(guarded, "external_location/t1", "CREATE MANAGED STORAGE")
    assert await allowed("t1/b", "b") == ["CREATE EXTERNAL VOLUME", "CREATE MANAGED STORAGE"]
    await revoke(guarded, "external_location/t1", "CREATE EXTERNAL VOLUME")
    await grant(guarded, "external_location/t1", "CREATE EXTERNAL TABLE")
    assert set(await allowed("t1/c", "c")) >= {"CREATE EXTERNAL TABLE", "CREATE MANAGED STORAGE"}
    assert await allowed("t10", "d", is_hidden=True) == [], "the other location has a name that begins with this one's"


async def test_a_location_around_files_of_the_catalog_is_for_administrators(
    guarded: Guarded, bucket: str, minio: MinioServer
) -> None:
    ann = await guarded.token("ann")
    await grant(guarded, "credential/vault", "CREATE EXTERNAL LOCATION")
    await guarded.run("POST", f"{UNITY}/tables", external("theirs", f"{bucket}/t1/deep/theirs"))
    await S3Storage(minio.account(f"{bucket}/")).put_new(f"{bucket}/t1/deep/theirs/", "f", b"1")

    async def state(token: str, name: str, folder: str) -> int:
        body = {"name": name, "url": f"{bucket}/{folder}", "credential_name": "vault"}
        return await guarded.status(token, "POST", f"{UNITY}/external-locations", body)

    for folder in ("t1/deep", "t1/deep/theirs", "t1/deep/theirs/part"):
        assert await state(ann, "mine", folder) == 403, folder
    assert await state(ann, "mine", "elsewhere") == 200
    assert await state(guarded.admin, "outer", "t1/deep") == 200


async def test_a_location_in_another_one_is_for_those_who_manage_that_one(
    tmp_path: Path, minio: MinioServer, bucket: str
) -> None:
    """Its credential would decide in which store the files of tables to come are."""
    own = f"s3://{minio.new_bucket()}/"
    settings = {**on_s3(minio, f"{own}managed/"), "s3_locations": own, "secret_key": KEY}
    async with open_guarded(tmp_path / "data", **settings) as guarded:
        await guarded.run("POST", f"{UNITY}/credentials", key_of(minio))
        body = {"name": "t1", "url": f"{bucket}/t1", "credential_name": "vault"}
        await guarded.run("POST", f"{UNITY}/external-locations", body)
        for root in (f"{bucket}/t1/fin", f"{own}fin"):
            await guarded.run("POST", f"{UNITY}/catalogs", {"name": root[-9:].replace("/", "_"), "storage_root": root})
        ann = await guarded.user("ann")
        await grant(guarded, "metastore/main", "CREATE STORAGE CREDENTIAL")
        done(await guarded.ask(ann, "POST", f"{UNITY}/credentials", {**key_of(minio), "name": "anns"}))

        async def ask(name: str, url: str) -> Any:
            body = {"name": name, "url": url, "credential_name": "anns", "skip_validation": True}
            return await guarded.ask(ann, "POST", f"{UNITY}/external-locations", body)

        inside = (f"{bucket}/t1/fin", f"{bucket}/t1/x", f"{own}fin", own)
        refused = [await ask("mine", url) for url in inside]
        assert [answer.status_code for answer in refused] == [403] * 4
        assert "t1" not in "".join(answer.json()["message"] for answer in refused), "as if there were no location"
        assert (await ask("mine", f"{bucket}/free")).status_code == 200
        moved = {"url": f"{bucket}/t1/x", "skip_validation": True}
        assert await guarded.status(ann, "PATCH", f"{UNITY}/external-locations/mine", moved) == 403
        assert (await ask("deeper", f"{bucket}/free/x")).status_code == 200, "in a location of its own"
        await grant(guarded, "external_location/t1", "MANAGE")
        assert (await ask("managed", f"{bucket}/t1/x")).status_code == 200


async def test_who_manages_a_location_may_not_move_it_with_a_credential_of_others(
    guarded: Guarded, bucket: str
) -> None:
    """Otherwise it could reach every folder that the credential opens."""
    ann = await guarded.token("ann")
    await grant(guarded, "external_location/t1", "MANAGE")
    moved = {"url": f"{bucket}/finance"}

    async def state(**change: Any) -> int:
        return await guarded.status(ann, "PATCH", f"{UNITY}/external-locations/t1", change)

    assert await state(**moved) == 404, "as if there were no such credential"
    assert await state(**moved, credential_name="vault") == 404
    assert await state(comment="ours") == 200
    await grant(guarded, "credential/vault", "CREATE EXTERNAL LOCATION")
    assert await state(**moved) == 200
    await guarded.run("DELETE", f"{UNITY}/credentials/vault?force=true")
    answer = await guarded.ask(ann, "PATCH", f"{UNITY}/external-locations/t1", {"url": f"{bucket}/t1"})
    assert (answer.status_code, "credential was deleted" in answer.text) == (400, True), answer.text
