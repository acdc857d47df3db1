"""Tables in an object store: locations, client configuration, and signed requests."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from msgspec.structs import force_setattr, replace

from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.server.stores import ServerStores
from moorage.storage.s3 import S3Storage
from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.s3_sessions import S3Sessions
from moorage.storage.secrets import SecretKeys
from moorage.storage.sigv4 import amz_date, authorization, host_of
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


VENDED, SIGNED = "vended-credentials", "remote-signing"
STORE = {"s3.endpoint", "s3.region", "client.region", "s3.path-style-access"}
KEY = {"s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.session-token-expires-at-ms"}


def requesting(delegation: str, lake: Lake, **headers: str) -> Lake:
    """The same lake for a client without its own key, which requests access."""
    return Lake(lake.house, lake.managed.parent, **{"x-iceberg-access-delegation": delegation, **headers})


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


@pytest.mark.parametrize(
    ("header", "mechanism"),
    [
        ("", None),
        (",", None),
        ("none", None),
        ("vended_credentials", None),
        ("vended-credentials-2", None),
        ("vended-credentials", VENDED),
        ("Vended-Credentials", VENDED),
        ("remote-signing", SIGNED),
        ("other ,REMOTE-SIGNING,", SIGNED),
        ("remote-signing,vended-credentials", VENDED),
        ("vended-credentials , remote-signing", VENDED),
        ("other, remote-signing", SIGNED),
    ],
)
async def test_a_client_gets_the_access_that_it_requests_and_nothing_else(
    lake: Lake, header: str, mechanism: str | None
) -> None:
    client = requesting(header, lake)
    created, staged, loaded = await client.create("a b"), await client.create("c", stage=True), await client.load("a b")
    for answer in (created, staged, loaded):
        found = done(answer)
        extra = found["config"].keys() - STORE
        if mechanism is None:
            assert not extra
        if mechanism == VENDED:
            assert extra == {*KEY, "client.refresh-credentials-endpoint"}
            [credential] = found["storage-credentials"]
            assert credential["prefix"] == found["metadata"]["location"]
            assert credential["config"].items() == {name: found["config"][name] for name in KEY}.items()
        if mechanism == SIGNED:
            assert not extra & KEY
            assert found["config"]["s3.remote-signing-enabled"] == "true"
        assert ("storage-credentials" in found) is (mechanism == VENDED)
        assert answer.headers.get("cache-control") == ("no-store" if mechanism == VENDED else None)
    if mechanism == SIGNED:
        assert done(loaded)["config"]["s3.signer.endpoint"] == "v1/lake/namespaces/sales/tables/a%20b/sign"
        assert done(staged)["config"]["s3.signer.endpoint"] == "v1/lake/namespaces/sales/tables/c/sign"
        assert done(loaded)["config"]["s3.connect-timeout"] != done(staged)["config"]["s3.connect-timeout"]


async def test_a_client_without_the_header_gets_endpoint_and_region(lake: Lake) -> None:
    plain = done(await lake.create("orders"))
    assert plain["config"].keys() == STORE
    assert (plain["config"]["s3.region"], plain["config"]["s3.path-style-access"]) == (REGION, "true")
    assert "storage-credentials" not in plain


async def statuses(minio: MinioServer, config: dict[str, str], verb: str, *locations: str) -> list[int]:
    """What the store returns to requests that are signed with a vended key."""
    key = S3Key(
        access_key_id=config["s3.access-key-id"],
        secret_access_key=config["s3.secret-access-key"],
        token=config["s3.session-token"],
    )
    found = []
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        for each in locations:
            bucket, _, path = each.removeprefix("s3://").partition("/")
            if verb == "LIST":
                uri, method = f"{minio.endpoint}/{bucket}?list-type=2&prefix={quote(path, safe='')}", "GET"
            else:
                uri, method = f"{minio.endpoint}/{bucket}/{path}", verb
            headers = {
                "host": host_of(uri),
                "x-amz-date": amz_date(time.time_ns() // 1_000_000),
                "x-amz-content-sha256": hashlib.sha256(b"").hexdigest(),
                "x-amz-security-token": key.token or "",
            }
            proof = authorization(method, uri, headers, key=key, region=REGION)
            answer = await http.request(method, uri, headers={**headers, "authorization": proof})
            found.append(answer.status_code)
    return found


async def test_a_vended_key_opens_its_table_and_nothing_else(lake: Lake, minio: MinioServer, allowed: str) -> None:
    client = requesting(VENDED, lake)
    mine, theirs = done(await client.create("mine")), done(await client.create("theirs"))
    config, own, sibling = mine["config"], mine["metadata"]["location"], theirs["metadata"]["location"]
    other = f"s3://{minio.new_bucket()}"
    outside = (sibling, own.rpartition("/")[0], allowed.rstrip("/"), allowed.removesuffix("/lake/"), f"{own}x", other)
    await S3Storage(minio.account(f"{other}/")).put_new(f"{other}/", "a", b"")
    assert await statuses(minio, config, "PUT", f"{own}/data/a") == [200]
    assert await statuses(minio, config, "GET", f"{own}/data/a", mine["metadata-location"]) == [200, 200]
    assert await statuses(minio, config, "LIST", f"{own}/") == [200]
    for verb in ("PUT", "GET", "DELETE"):
        assert await statuses(minio, config, verb, *(f"{each}/a" for each in outside)) == [403] * len(outside)
    assert await statuses(minio, config, "LIST", *(f"{each}/" for each in outside)) == [403] * len(outside)
    assert await statuses(minio, config, "DELETE", f"{own}/data/a") == [204]
    assert int(config["s3.session-token-expires-at-ms"]) > time.time() * 1000 + 29 * 60_000


async def test_a_caller_that_may_only_read_gets_a_key_that_only_reads(lake: Lake, minio: MinioServer) -> None:
    created = done(await lake.create("orders"))
    reader = requesting(VENDED, lake, **{"x-caller": "reader"})
    endpoint = done(await reader.ask("GET", f"{to_table('orders')}/credentials"))["storage-credentials"]
    for config in (done(await reader.load("orders"))["config"], endpoint[0]["config"]):
        assert await statuses(minio, config, "GET", created["metadata-location"]) == [200]
        for verb in ("PUT", "DELETE"):
            assert await statuses(minio, config, verb, f"{created['metadata']['location']}/a") == [403]


async def test_a_staged_table_has_a_key_before_it_exists_for_the_caller_that_staged_it(
    lake: Lake, minio: MinioServer, allowed: str
) -> None:
    staged = done(await requesting(VENDED, lake).create("coming", stage=True))
    file = f"{staged['metadata']['location']}/data/a"
    refreshed = done(await lake.ask("GET", f"{to_table('coming')}/credentials"))["storage-credentials"]
    for config in (staged["config"], refreshed[0]["config"]):
        assert await statuses(minio, config, "PUT", file) == [200]
    other = seen_by("other", lake)
    refused(await other.ask("GET", f"{to_table('coming')}/credentials"), 404, "NoSuchTableException")
    # No record reserves a location that the client chose: another caller could create a table there.
    elsewhere = await requesting(VENDED, lake).create("elsewhere", stage=True, location=f"{allowed}own/x")
    assert "storage-credentials" not in done(elsewhere)
    assert done(elsewhere)["config"].keys() == STORE


async def test_a_key_opens_former_locations_too(lake: Lake, minio: MinioServer, allowed: str) -> None:
    client = requesting(VENDED, lake)
    first = done(await client.create("orders"))["metadata"]["location"]
    done(await lake.commit("orders", {"action": "set-location", "location": f"{allowed}own/t"}))
    loaded = done(await client.load("orders"))
    assert [each["prefix"] for each in loaded["storage-credentials"]] == [f"{allowed}own/t", first]
    assert "client.refresh-credentials-endpoint" not in loaded["config"]
    assert await statuses(minio, loaded["config"], "PUT", f"{first}/a", f"{allowed}own/t/a") == [200, 200]
    assert await statuses(minio, loaded["config"], "PUT", f"{allowed}own/u/a") == [403]


async def test_registered_tables_get_keys_and_credentials_are_loaded_and_listed(lake: Lake, allowed: str) -> None:
    client = requesting(VENDED, lake)
    done(await client.create("orders", location=f"{allowed}own/orders"))
    unregistered = done(await client.ask("POST", f"{to_table('orders')}/unregister"))
    assert "config" not in unregistered
    body = {"name": "again", "metadata-location": unregistered["metadata-location"]}
    registered = done(await client.ask("POST", "/namespaces/sales/register", body))
    answer = await lake.ask("GET", f"{to_table('again')}/credentials")
    assert done(answer)["storage-credentials"] == registered["storage-credentials"]
    assert answer.headers["cache-control"] == "no-store"
    assert CREDENTIALS in await endpoints(lake)
    refused(await lake.ask("GET", f"{to_table('nothing')}/credentials"), 404, "NoSuchTableException")


async def test_an_etag_covers_the_client_configuration_and_the_key(
    lake: Lake, minio: MinioServer, allowed: str
) -> None:
    await lake.create("orders")
    clients = [lake, requesting(VENDED, lake), requesting(SIGNED, lake)]
    reader = requesting(VENDED, lake, **{"x-caller": "reader"})
    tags = [(await client.load("orders")).headers["etag"] for client in (*clients, reader)]
    assert len(set(tags)) == 4
    for n, client in enumerate((*clients, reader)):
        found = [(await client.load("orders", tag=tag)).status_code for tag in tags]
        assert found == [304 if n == m else 200 for m in range(4)]

    # Another server, or this one half an hour later, vends another key.
    account = minio.account(allowed)
    use_account(lake, account)
    assert [(await client.load("orders", tag=tags[n])).status_code for n, client in enumerate(clients)] == [
        304,
        200,
        304,
    ]


async def test_signing_is_listed_as_an_endpoint_with_an_object_store(lake: Lake) -> None:
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/sign" in await endpoints(lake)


CREDENTIALS = "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"


async def endpoints(lake: Lake) -> list[str]:
    config = done(await lake.house.console.http.get("/iceberg/v1/config", params={"warehouse": "lake"}))
    return list(config["endpoints"])


async def test_no_response_contains_the_secret(lake: Lake) -> None:
    await lake.create("orders")
    http = lake.house.console.http
    for answer in (
        await requesting(VENDED, lake).load("orders"),
        await requesting(SIGNED, lake).load("orders"),
        await sign(lake, "orders", "GET", await location(lake, "orders") + "/a"),
        await lake.ask("GET", f"{to_table('orders')}/credentials"),
        await http.get("/iceberg/v1/config", params={"warehouse": "lake"}),
        await http.get("/api/moorage/v1/health"),
        await http.get("/metrics"),
    ):
        assert PASSWORD not in answer.text + str(answer.headers)
    assert PASSWORD not in repr(lake.house.ports.stores)


def use_account(lake: Lake, account: S3Account, sessions: S3Sessions | None = None) -> None:
    """Let clients reach the store by another account than the one that the server started with."""
    force_setattr(lake.house.ports, "stores", ServerStores(lake.house.ledger, SecretKeys(), account, sessions))


# --- signing -----------------------------------------------------------------------------------------


async def location(lake: Lake, name: str) -> str:
    return str((await lake.metadata(name))["location"])


async def sign(lake: Lake, table: str, method: str, location: str, **given: Any) -> httpx.Response:
    """Ask the server to sign a request for a location."""
    store = await lake.house.ports.stores.find((await lake.house.ports.stores.locations())[0])
    assert store
    assert store.settings
    uri = f"{store.settings.endpoint}/{location.removeprefix('s3://')}"
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


async def test_without_sessions_of_the_store_nothing_is_signed_vended_or_listed(
    lake: Lake, minio: MinioServer, allowed: str
) -> None:
    now = 0.0
    without_sts = replace(minio.account(allowed), endpoint="http://127.0.0.1:1")
    sessions = S3Sessions(without_sts, clock=lambda: now)
    use_account(lake, without_sts, sessions)
    both = requesting(f"{VENDED},{SIGNED}", lake)
    created = done(await both.create("orders"))
    assert (created["config"].keys(), "storage-credentials" in created) == (STORE, False)
    assert not [path for path in await endpoints(lake) if path.endswith(("/sign", "/credentials"))]
    file = await location(lake, "orders") + "/a"
    refused(
        await sign(lake, "orders", "GET", file),
        406,
        "UnsupportedOperationException",
        "give the client a key of its own",
    )
    answer = await lake.ask("GET", f"{to_table('orders')}/credentials")
    refused(answer, 406, "UnsupportedOperationException", "let the server sign requests")

    force_setattr(without_sts, "endpoint", minio.endpoint)
    now = 1000.0
    assert done(await both.load("orders"))["config"].keys() >= KEY
    assert len([path for path in await endpoints(lake) if path.endswith(("/sign", "/credentials"))]) == 2
    done(await sign(lake, "orders", "GET", file))
    done(await lake.ask("GET", f"{to_table('orders')}/credentials"))


async def test_a_store_that_enforces_signatures_signs_and_vends_nothing(
    lake: Lake, minio: MinioServer, allowed: str
) -> None:
    account = replace(minio.account(allowed), is_strict=True)
    use_account(lake, account)
    assert done(await requesting(VENDED, lake).create("orders"))["config"].keys() == STORE
    both = requesting(f"{VENDED}, {SIGNED}", lake)
    assert done(await both.load("orders"))["config"]["s3.remote-signing-enabled"] == "true"
    assert CREDENTIALS not in await endpoints(lake)


async def test_a_store_that_fails_after_a_table_was_created_does_not_fail_the_creation(
    lake: Lake, minio: MinioServer, allowed: str
) -> None:
    away = minio.account(allowed)
    use_account(lake, away)
    client = requesting(VENDED, lake)
    done(await client.create("before"))
    force_setattr(away, "endpoint", "http://127.0.0.1:1")
    created = done(await client.create("orders"))
    assert (created["config"].keys(), "storage-credentials" in created) == (STORE, False)
    refused(await client.load("orders"), 503, "ServiceUnavailableException", "issued no session")
    assert done(await lake.load("orders"))["config"].keys() == STORE
