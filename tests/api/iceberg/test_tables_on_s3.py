"""Tables in an object store: locations, client configuration, and signed requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec.structs import force_setattr, replace

from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.storage.s3 import S3Storage
from moorage.storage.s3_delegation import S3Delegation
from moorage.storage.s3_sessions import S3Sessions
from moorage.testing.manifest_writer import manifest, manifest_list
from moorage.testing.minio import PASSWORD, REGION, MinioServer
from moorage.testing.storage_kit import MUCH
from tests.api.doors import NamedCallers
from tests.api.house import done, on_s3, open_house
from tests.api.iceberg.lake import SPACE, Lake, refused, set_property, to_table
from tests.api.iceberg.planning import data, paths
from tests.api.iceberg.test_commits import TIDY
from tests.api.iceberg.test_tables import set_main

pytestmark = pytest.mark.xdist_group("s3")


def without_key(lake: Lake) -> Lake:
    """The same lake for a client without its own key."""
    return Lake(lake.house, lake.managed.parent, **{"x-iceberg-access-delegation": "vended-credentials"})


def seen_by(caller: str, lake: Lake) -> Lake:
    return Lake(lake.house, lake.managed.parent, **{"x-caller": caller})


class Readers(NamedCallers):
    """The caller `reader` may only read."""

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return caller.id != "reader" or privilege in (Privilege.READ, Privilege.BROWSE)


@pytest.fixture
def allowed(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


@pytest.fixture
async def lake(minio: MinioServer, allowed: str, tmp_path: Path) -> AsyncIterator[Lake]:
    async with open_house(tmp_path / "data", access=Readers(), **on_s3(minio, allowed)) as house:
        await house.console.make("lake")
        lake = Lake(house, tmp_path / "data")
        assert (await lake.create_space(*SPACE)).status_code == 200
        yield lake


async def files(minio: MinioServer, allowed: str) -> list[str]:
    return [each.path for each in await S3Storage(minio.account(allowed)).list(allowed, "")]


async def test_a_tables_metadata_is_written_only_to_the_store(lake: Lake, minio: MinioServer, allowed: str) -> None:
    first = done(await lake.create("orders"))
    assert first["metadata"]["location"].startswith(f"{allowed}managed/tables/")
    second = done(await lake.commit("orders", set_property("a")))
    storage = S3Storage(minio.account(allowed))
    for answer in (first, second):
        path = answer["metadata-location"].removeprefix(allowed)
        assert await storage.read(allowed, path, limit=MUCH) is not None
    assert len(await files(minio, allowed)) == 2
    assert not lake.metadata_files(), "something was written to the disk"


async def test_a_table_can_be_created_in_an_allowed_location_of_the_store_only(lake: Lake, allowed: str) -> None:
    own = f"{allowed}own/orders"
    assert done(await lake.create("orders", location=own))["metadata"]["location"] == own
    registered = done(await lake.load("orders"))["metadata-location"]
    assert (await lake.ask("POST", f"{to_table('orders')}/unregister")).status_code == 200
    body = {"name": "again", "metadata-location": registered}
    assert done(await lake.ask("POST", "/namespaces/sales/register", body))["metadata-location"] == registered
    for foreign in ("s3://other-bucket/orders", allowed.replace("/lake/", "/lakes/orders"), f"{allowed}managed/x"):
        refused(await lake.create("foreign", location=foreign), 400, "BadRequestException")


async def test_the_location_of_a_namespace_decides_where_its_tables_are_created(lake: Lake, allowed: str) -> None:
    for n, root in enumerate((f"{allowed}teams/a", f"{allowed.replace('s3://', 's3a://')}teams/b/")):
        made = done(await lake.create_space(f"n{n}", properties={"location": root}))
        assert made["properties"]["location"] == root
        created = done(await lake.create("orders", space=(f"n{n}",)))
        assert created["metadata"]["location"].startswith(f"{allowed}teams/{'ab'[n]}/__unitystorage/schemas/")
        for change in ({"removals": ["location"]}, {"updates": {"location": f"{allowed}elsewhere"}}):
            answer = await lake.ask("POST", f"/namespaces/n{n}/properties", change)
            refused(answer, 400, "BadRequestException", "the location of a namespace cannot change")
        done(await lake.ask("POST", f"/namespaces/n{n}/properties", {"updates": {"location": root, "a": "b"}}))
    for foreign in ("s3://another/x", allowed.replace("/lake/", "/lakes/")):
        answer = await lake.create_space("foreign", properties={"location": foreign})
        refused(
            answer, 400, "BadRequestException", f"location '{foreign}' is outside the allowed locations ({allowed})"
        )
    answer = await lake.create_space("foreign", properties={"location": f"{allowed}../x"})
    refused(answer, 400, "BadRequestException", "location")
    assert (await lake.create_space("remark", properties={"location": "anywhere"})).status_code == 200


async def test_a_location_may_use_the_scheme_s3a(lake: Lake, allowed: str) -> None:
    own = f"{allowed.replace('s3://', 's3a://')}own/orders"
    created = done(await lake.create("orders", location=own))
    assert created["metadata-location"].startswith(f"{own}/metadata/")
    assert created["config"]["s3.region"] == REGION
    done(await sign(lake, "orders", "GET", f"{allowed}own/orders/a"))
    done(await lake.commit("orders", set_property("a")))


async def test_manifests_and_old_metadata_files_are_found_under_the_scheme_s3a(
    lake: Lake, minio: MinioServer, allowed: str
) -> None:
    own = f"{allowed.replace('s3://', 's3a://')}own/orders"
    done(await lake.create("orders", location=own, properties=TIDY))
    store, root = S3Storage(minio.account(allowed)), f"{allowed}own/orders/"
    line = {"manifest_path": f"{own}/metadata/m.avro", "manifest_length": 1, "partition_spec_id": 0, "content": 0}
    await store.overwrite(root, "metadata/m.avro", manifest(data("a.parquet", ids=(1, 5))))
    await store.overwrite(root, "metadata/s.avro", manifest_list(line))
    snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": f"{own}/metadata/s.avro"}
    done(await lake.commit("orders", {"action": "add-snapshot", "snapshot": snapshot}, set_main(1)))
    assert paths(await lake.ask("POST", f"{to_table('orders')}/plan", {})) == ["a.parquet"]
    for n in range(4):
        done(await lake.commit("orders", set_property("n", str(n))))
    assert len([each for each in await files(minio, root) if each.endswith(".metadata.json")]) == 3


async def test_clients_get_the_endpoint_of_the_store_and_those_without_a_key_the_signing_endpoint(lake: Lake) -> None:
    created = done(await lake.create("a b"))
    plain = created["config"]
    assert (plain["s3.region"], plain["client.region"], plain["s3.path-style-access"]) == (REGION, REGION, "true")
    assert not [name for name in plain if "sign" in name]
    signing = done(await without_key(lake).load("a b"))["config"]
    assert signing["s3.remote-signing-enabled"] == "true"
    assert signing["s3.signer.endpoint"] == "v1/lake/namespaces/sales/tables/a%20b/sign"
    staged = await without_key(lake).create("c", stage=True)
    assert done(staged)["config"]["s3.signer.endpoint"] == "v1/lake/namespaces/sales/tables/c/sign"


async def test_an_etag_covers_the_client_configuration(lake: Lake) -> None:
    await lake.create("orders")
    plain, signing = await lake.load("orders"), await without_key(lake).load("orders")
    assert plain.headers["etag"] != signing.headers["etag"]
    assert (await lake.load("orders", tag=plain.headers["etag"])).status_code == 304
    assert (await without_key(lake).load("orders", tag=plain.headers["etag"])).status_code == 200
    assert (await without_key(lake).load("orders", tag=signing.headers["etag"])).status_code == 304


async def test_signing_is_listed_as_an_endpoint_with_an_object_store(lake: Lake) -> None:
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign" in await endpoints(lake)


async def endpoints(lake: Lake) -> list[str]:
    config = done(await lake.house.console.http.get("/iceberg/v1/config", params={"warehouse": "lake"}))
    return list(config["endpoints"])


async def test_no_response_contains_the_secret(lake: Lake) -> None:
    await lake.create("orders")
    http = lake.house.console.http
    for answer in (
        await without_key(lake).load("orders"),
        await sign(lake, "orders", "GET", await location(lake, "orders") + "/a"),
        await lake.ask("GET", f"{to_table('orders')}/credentials"),
        await http.get("/iceberg/v1/config", params={"warehouse": "lake"}),
        await http.get("/api/moorage/v1/health"),
        await http.get("/metrics"),
    ):
        assert PASSWORD not in answer.text + str(answer.headers)
    assert PASSWORD not in repr(lake.house.ports.delegation)


# --- signing -----------------------------------------------------------------------------------------


async def location(lake: Lake, name: str) -> str:
    return str((await lake.metadata(name))["location"])


async def sign(lake: Lake, table: str, method: str, location: str, **given: Any) -> httpx.Response:
    """Ask the server to sign a request for a location."""
    assert lake.house.ports.delegation
    uri = f"{lake.house.ports.delegation.settings.endpoint}/{location.removeprefix('s3://')}"
    body = {"region": "anywhere", "uri": uri, "method": method, "headers": {}, **given}
    return await lake.ask("POST", f"{to_table(table)}/sign", body)


async def test_requests_for_files_of_the_table_are_signed_and_others_are_not(lake: Lake) -> None:
    await lake.create("mine")
    await lake.create("theirs")
    mine, theirs = await location(lake, "mine"), await location(lake, "theirs")
    for method, kept in (("GET", "private"), ("HEAD", "private"), ("PUT", "no-cache"), ("DELETE", "no-cache")):
        answer = await sign(lake, "mine", method, f"{mine}/data/a.parquet")
        assert f"/{REGION}/s3/aws4_request" in done(answer)["headers"]["Authorization"][0]
        assert answer.headers["cache-control"] == kept
        for foreign in (f"{theirs}/a", f"{mine}/../{theirs.rpartition('/')[2]}/a", f"{mine}x/a", "s3://other/a"):
            refused(await sign(lake, "mine", method, foreign), 403, "ForbiddenException")
    refused(await sign(lake, "nothing", "GET", f"{mine}/a"), 404, "NoSuchTableException")


async def test_a_caller_that_may_only_read_gets_only_reads_signed(lake: Lake) -> None:
    await lake.create("orders")
    file, reader = await location(lake, "orders") + "/a", seen_by("reader", lake)
    for method in ("GET", "HEAD"):
        done(await sign(reader, "orders", method, file))
    for method in ("PUT", "DELETE"):
        refused(await sign(reader, "orders", method, file), 403, "ForbiddenException", "modify")
    refused(await sign(reader, "orders", "POST", f"{file}?uploads"), 403, "ForbiddenException")


async def test_files_of_a_staging_table_are_signed_for_callers_that_may_create_it(lake: Lake) -> None:
    await lake.create("there")
    staged = done(await lake.create("coming", stage=True))["metadata"]["location"]
    done(await sign(lake, "coming", "PUT", f"{staged}/a"))
    refused(await sign(seen_by("reader", lake), "coming", "PUT", f"{staged}/a"), 403, "ForbiddenException")
    refused(await sign(lake, "coming", "PUT", f"{staged}/../x/a"), 403, "ForbiddenException")
    for foreign in (await location(lake, "there"), staged.rpartition("/")[0], f"{staged}x"):
        refused(await sign(lake, "coming", "PUT", f"{foreign}/a"), 404, "NoSuchTableException")
    refused(await sign(lake, "there", "PUT", f"{staged}/a"), 403, "ForbiddenException")


async def test_requests_for_files_in_former_locations_are_signed(lake: Lake, allowed: str) -> None:
    await lake.create("orders")
    await lake.create("theirs")
    first, theirs = await location(lake, "orders"), await location(lake, "theirs")
    for moved in ("t", "u"):
        done(await lake.commit("orders", {"action": "set-location", "location": f"{allowed}own/{moved}"}))
    for method in ("GET", "DELETE"):
        for folder in (first, f"{allowed}own/t", f"{allowed}own/u"):
            done(await sign(lake, "orders", method, f"{folder}/data/a"))
        for foreign in (theirs, f"{allowed}own/v", f"{allowed}own"):
            refused(await sign(lake, "orders", method, f"{foreign}/a"), 403, "ForbiddenException")


async def test_a_request_that_cannot_be_signed_is_refused_with_the_reason(lake: Lake) -> None:
    await lake.create("orders")
    root = await location(lake, "orders")
    bucket = root.removeprefix("s3://").partition("/")[0]
    refused(await sign(lake, "orders", "POST", f"s3://{bucket}?delete", body="x"), 400, "BadRequestException", "XML")
    refused(await sign(lake, "orders", "PUT", f"{root}/a?acl"), 403, "ForbiddenException", "acl")
    refused(await sign(lake, "orders", "GET", f"{root}/a", provider="gcs"), 406, "UnsupportedOperationException")
    refused(await sign(lake, "orders", "TRACE", f"{root}/a"), 400, "BadRequestException")
    refused(await sign(lake, "orders", "GET", f"{root}/a", headers={"a": "b"}), 400, "BadRequestException")
    for body in ({}, {"region": "x", "uri": 1, "method": "GET", "headers": {}}):
        refused(await lake.ask("POST", f"{to_table('orders')}/sign", body), 400, "BadRequestException")


async def test_without_sessions_of_the_store_nothing_is_signed_or_listed(
    lake: Lake, minio: MinioServer, allowed: str
) -> None:
    now = 0.0
    without_sts = replace(minio.account(allowed), endpoint="http://127.0.0.1:1")
    sessions = S3Sessions(without_sts, clock=lambda: now)
    force_setattr(lake.house.ports, "delegation", S3Delegation(without_sts, sessions))
    config = done(await without_key(lake).create("orders"))["config"]
    assert not [name for name in config if "sign" in name]
    assert not [path for path in await endpoints(lake) if path.endswith("/sign")]
    file = await location(lake, "orders") + "/a"
    refused(
        await sign(lake, "orders", "GET", file),
        406,
        "UnsupportedOperationException",
        "give the client a key of its own",
    )

    force_setattr(without_sts, "endpoint", minio.endpoint)
    now = 1000.0
    assert done(await without_key(lake).load("orders"))["config"]["s3.remote-signing-enabled"] == "true"
    assert [path for path in await endpoints(lake) if path.endswith("/sign")]
    done(await sign(lake, "orders", "GET", file))


async def test_credentials_are_refused_with_a_hint_to_remote_signing(lake: Lake) -> None:
    await lake.create("orders")
    answer = await lake.ask("GET", f"{to_table('orders')}/credentials")
    refused(answer, 406, "UnsupportedOperationException", "remote signing")
