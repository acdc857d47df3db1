"""Tables whose files lie in an object store: where, what clients are told of it, and what is signed for whom."""

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


def helpless(lake: Lake) -> Lake:
    """The same for a client that has no key of its own."""
    return Lake(lake.house, lake.managed.parent, **{"x-iceberg-access-delegation": "vended-credentials"})


def seen_by(caller: str, lake: Lake) -> Lake:
    return Lake(lake.house, lake.managed.parent, **{"x-caller": caller})


class Readers(NamedCallers):
    """The caller `reader` may only read."""

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return caller.id != "reader" or privilege in (Privilege.READ, Privilege.BROWSE)


@pytest.fixture
def place(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


@pytest.fixture
async def lake(minio: MinioServer, place: str, tmp_path: Path) -> AsyncIterator[Lake]:
    async with open_house(tmp_path / "data", access=Readers(), **on_s3(minio, place)) as house:
        await house.console.make("lake")
        lake = Lake(house, tmp_path / "data")
        assert (await lake.create_space(*SPACE)).status_code == 200
        yield lake


async def files(minio: MinioServer, place: str) -> list[str]:
    return [each.path for each in await S3Storage(minio.account(place)).list(place, "")]


async def test_a_tables_metadata_is_written_to_the_store_and_goes_with_it(
    lake: Lake, minio: MinioServer, place: str
) -> None:
    first = done(await lake.create("orders"))
    assert first["metadata"]["location"].startswith(f"{place}managed/tables/")
    second = done(await lake.commit("orders", set_property("a")))
    storage = S3Storage(minio.account(place))
    for answer in (first, second):
        path = answer["metadata-location"].removeprefix(place)
        assert await storage.read(place, path, limit=MUCH) is not None
    assert len(await files(minio, place)) == 2
    assert not lake.metadata_files(), "something was written to the disk"


async def test_a_table_may_bring_a_place_in_the_store_but_in_no_other_bucket(lake: Lake, place: str) -> None:
    own = f"{place}own/orders"
    assert done(await lake.create("orders", location=own))["metadata"]["location"] == own
    registered = done(await lake.load("orders"))["metadata-location"]
    assert (await lake.ask("POST", f"{to_table('orders')}/unregister")).status_code == 200
    body = {"name": "again", "metadata-location": registered}
    assert done(await lake.ask("POST", "/namespaces/sales/register", body))["metadata-location"] == registered
    for foreign in ("s3://other-bucket/orders", place.replace("/lake/", "/lakes/orders"), f"{place}managed/x"):
        refused(await lake.create("foreign", location=foreign), 400, "BadRequestException")


async def test_a_namespace_may_say_where_its_tables_go(lake: Lake, place: str) -> None:
    for n, root in enumerate((f"{place}teams/a", f"{place.replace('s3://', 's3a://')}teams/b/")):
        made = done(await lake.create_space(f"n{n}", properties={"location": root}))
        assert made["properties"]["location"] == root
        created = done(await lake.create("orders", space=(f"n{n}",)))
        assert created["metadata"]["location"].startswith(f"{place}teams/{'ab'[n]}/__unitystorage/schemas/")
        for change in ({"removals": ["location"]}, {"updates": {"location": f"{place}elsewhere"}}):
            answer = await lake.ask("POST", f"/namespaces/n{n}/properties", change)
            refused(answer, 400, "BadRequestException", "which cannot change")
        done(await lake.ask("POST", f"/namespaces/n{n}/properties", {"updates": {"location": root, "a": "b"}}))
    for foreign in ("s3://another/x", place.replace("/lake/", "/lakes/")):
        answer = await lake.create_space("foreign", properties={"location": foreign})
        refused(answer, 400, "BadRequestException", f"location '{foreign}' is outside the allowed locations ({place})")
    answer = await lake.create_space("foreign", properties={"location": f"{place}../x"})
    refused(answer, 400, "BadRequestException", "location")
    assert (await lake.create_space("remark", properties={"location": "anywhere"})).status_code == 200


async def test_a_location_may_be_spelled_as_hadoop_spells_it(lake: Lake, place: str) -> None:
    own = f"{place.replace('s3://', 's3a://')}own/orders"
    created = done(await lake.create("orders", location=own))
    assert created["metadata-location"].startswith(f"{own}/metadata/")
    assert created["config"]["s3.region"] == REGION
    done(await sign(lake, "orders", "GET", f"{place}own/orders/a"))
    done(await lake.commit("orders", set_property("a")))


async def test_scans_and_old_files_are_found_however_their_paths_are_spelled(
    lake: Lake, minio: MinioServer, place: str
) -> None:
    own = f"{place.replace('s3://', 's3a://')}own/orders"
    done(await lake.create("orders", location=own, properties=TIDY))
    store, root = S3Storage(minio.account(place)), f"{place}own/orders/"
    line = {"manifest_path": f"{own}/metadata/m.avro", "manifest_length": 1, "partition_spec_id": 0, "content": 0}
    await store.overwrite(root, "metadata/m.avro", manifest(data("a.parquet", ids=(1, 5))))
    await store.overwrite(root, "metadata/s.avro", manifest_list(line))
    snapshot = {"snapshot-id": 1, "sequence-number": 1, "timestamp-ms": 1, "manifest-list": f"{own}/metadata/s.avro"}
    done(await lake.commit("orders", {"action": "add-snapshot", "snapshot": snapshot}, set_main(1)))
    assert paths(await lake.ask("POST", f"{to_table('orders')}/plan", {})) == ["a.parquet"]
    for n in range(4):
        done(await lake.commit("orders", set_property("n", str(n))))
    assert len([each for each in await files(minio, root) if each.endswith(".metadata.json")]) == 3


async def test_clients_learn_where_the_store_is_and_those_without_a_key_who_signs(lake: Lake) -> None:
    created = done(await lake.create("a b"))
    bare = created["config"]
    assert (bare["s3.region"], bare["client.region"], bare["s3.path-style-access"]) == (REGION, REGION, "true")
    assert not [name for name in bare if "sign" in name]
    helped = done(await helpless(lake).load("a b"))["config"]
    assert helped["s3.remote-signing-enabled"] == "true"
    assert helped["s3.signer.endpoint"] == "v1/lake/namespaces/sales/tables/a%20b/sign"
    staged = await helpless(lake).create("c", stage=True)
    assert done(staged)["config"]["s3.signer.endpoint"] == "v1/lake/namespaces/sales/tables/c/sign"


async def test_what_clients_are_told_is_part_of_what_a_tag_stands_for(lake: Lake) -> None:
    await lake.create("orders")
    bare, helped = await lake.load("orders"), await helpless(lake).load("orders")
    assert bare.headers["etag"] != helped.headers["etag"]
    assert (await lake.load("orders", tag=bare.headers["etag"])).status_code == 304
    assert (await helpless(lake).load("orders", tag=bare.headers["etag"])).status_code == 200
    assert (await helpless(lake).load("orders", tag=helped.headers["etag"])).status_code == 304


async def test_signing_is_offered_where_there_is_something_to_sign(lake: Lake) -> None:
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign" in await endpoints(lake)


async def endpoints(lake: Lake) -> list[str]:
    config = done(await lake.house.console.http.get("/iceberg/v1/config", params={"warehouse": "lake"}))
    return list(config["endpoints"])


async def test_no_answer_holds_the_secret(lake: Lake) -> None:
    await lake.create("orders")
    http = lake.house.console.http
    for answer in (
        await helpless(lake).load("orders"),
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
    """The answer to a request to sign one for a location."""
    assert lake.house.ports.delegation
    uri = f"{lake.house.ports.delegation.settings.endpoint}/{location.removeprefix('s3://')}"
    body = {"region": "anywhere", "uri": uri, "method": method, "headers": {}, **given}
    return await lake.ask("POST", f"{to_table(table)}/sign", body)


async def test_a_file_of_the_table_is_signed_and_one_of_another_is_not(lake: Lake) -> None:
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


async def test_whoever_may_only_read_gets_only_reads_signed(lake: Lake) -> None:
    await lake.create("orders")
    file, reader = await location(lake, "orders") + "/a", seen_by("reader", lake)
    for method in ("GET", "HEAD"):
        done(await sign(reader, "orders", method, file))
    for method in ("PUT", "DELETE"):
        refused(await sign(reader, "orders", method, file), 403, "ForbiddenException", "modify")
    refused(await sign(reader, "orders", "POST", f"{file}?uploads"), 403, "ForbiddenException")


async def test_the_files_of_a_table_to_come_are_signed_for_whoever_may_create_it(lake: Lake) -> None:
    await lake.create("there")
    staged = done(await lake.create("coming", stage=True))["metadata"]["location"]
    done(await sign(lake, "coming", "PUT", f"{staged}/a"))
    refused(await sign(seen_by("reader", lake), "coming", "PUT", f"{staged}/a"), 403, "ForbiddenException")
    refused(await sign(lake, "coming", "PUT", f"{staged}/../x/a"), 403, "ForbiddenException")
    for foreign in (await location(lake, "there"), staged.rpartition("/")[0], f"{staged}x"):
        refused(await sign(lake, "coming", "PUT", f"{foreign}/a"), 404, "NoSuchTableException")
    refused(await sign(lake, "there", "PUT", f"{staged}/a"), 403, "ForbiddenException")


async def test_files_are_signed_where_a_table_was_before_it_moved(lake: Lake, place: str) -> None:
    await lake.create("orders")
    await lake.create("theirs")
    first, theirs = await location(lake, "orders"), await location(lake, "theirs")
    for moved in ("t", "u"):
        done(await lake.commit("orders", {"action": "set-location", "location": f"{place}own/{moved}"}))
    for method in ("GET", "DELETE"):
        for folder in (first, f"{place}own/t", f"{place}own/u"):
            done(await sign(lake, "orders", method, f"{folder}/data/a"))
        for foreign in (theirs, f"{place}own/v", f"{place}own"):
            refused(await sign(lake, "orders", method, f"{foreign}/a"), 403, "ForbiddenException")


async def test_a_request_that_cannot_be_signed_is_told_why(lake: Lake) -> None:
    await lake.create("orders")
    place = await location(lake, "orders")
    bucket = place.removeprefix("s3://").partition("/")[0]
    refused(await sign(lake, "orders", "POST", f"s3://{bucket}?delete", body="x"), 400, "BadRequestException", "XML")
    refused(await sign(lake, "orders", "PUT", f"{place}/a?acl"), 403, "ForbiddenException", "acl")
    refused(await sign(lake, "orders", "GET", f"{place}/a", provider="gcs"), 406, "UnsupportedOperationException")
    refused(await sign(lake, "orders", "TRACE", f"{place}/a"), 400, "BadRequestException")
    refused(await sign(lake, "orders", "GET", f"{place}/a", headers={"a": "b"}), 400, "BadRequestException")
    for body in ({}, {"region": "x", "uri": 1, "method": "GET", "headers": {}}):
        refused(await lake.ask("POST", f"{to_table('orders')}/sign", body), 400, "BadRequestException")


async def test_while_the_store_cannot_restrict_a_key_nothing_is_signed_or_offered(
    lake: Lake, minio: MinioServer, place: str
) -> None:
    now = 0.0
    without_sts = replace(minio.account(place), endpoint="http://127.0.0.1:1")
    sessions = S3Sessions(without_sts, clock=lambda: now)
    force_setattr(lake.house.ports, "delegation", S3Delegation(without_sts, sessions))
    config = done(await helpless(lake).create("orders"))["config"]
    assert not [name for name in config if "sign" in name]
    assert not [path for path in await endpoints(lake) if path.endswith("/sign")]
    file = await location(lake, "orders") + "/a"
    refused(await sign(lake, "orders", "GET", file), 406, "UnsupportedOperationException", "key of your own")

    force_setattr(without_sts, "endpoint", minio.endpoint)
    now = 1000.0
    assert done(await helpless(lake).load("orders"))["config"]["s3.remote-signing-enabled"] == "true"
    assert [path for path in await endpoints(lake) if path.endswith("/sign")]
    done(await sign(lake, "orders", "GET", file))


async def test_credentials_are_not_vended_and_the_refusal_says_what_is(lake: Lake) -> None:
    await lake.create("orders")
    answer = await lake.ask("GET", f"{to_table('orders')}/credentials")
    refused(answer, 406, "UnsupportedOperationException", "remote signing")
