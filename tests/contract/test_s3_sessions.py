"""Sessions of MinIO give access to their locations only, and are cached."""

from __future__ import annotations

import asyncio
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar
from urllib.parse import parse_qsl

import httpx
import pytest
from msgspec.structs import replace

from moorage import fresh
from moorage.core.errors import Unavailable, Unsupported
from moorage.storage.s3 import S3Storage
from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.s3_delegation import S3Delegation
from moorage.storage.s3_requests import S3Request, sign, understand
from moorage.storage.s3_sessions import S3Sessions, policy_of
from moorage.testing.minio import KEY, MinioServer
from moorage.testing.storage_kit import MUCH

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture
def location(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


async def test_a_session_is_cached_by_location_and_access(minio: MinioServer, location: str) -> None:
    sessions = S3Sessions(minio.account(location))
    first = await sessions.key_for(f"{location}t1/", writes=False)
    assert first.token
    assert await sessions.key_for(f"{location}t1/", writes=False) is first
    others = (
        await sessions.key_for(f"{location}t1/", writes=True),
        await sessions.key_for(f"{location}t2/", writes=False),
    )
    both = await sessions.key_for(f"{location}t1/", f"{location}t2/", writes=False)
    assert len({first.access_key_id, both.access_key_id, *(each.access_key_id for each in others)}) == 4


async def test_a_session_for_several_locations_reaches_each_of_them_and_no_other(
    minio: MinioServer, location: str
) -> None:
    account, names = minio.account(location), ("old", "new", "other")
    for name in names:
        await S3Storage(account).put_new(f"{location}{name}/", "a", b"")
    key = await S3Sessions(account).key_for(f"{location}old/", f"{location}new/", writes=False)
    statuses = [await status_of(account, key, "GET", f"{location}{name}/a") for name in names]
    assert statuses == [200, 200, 403]


async def test_a_session_tells_that_a_folder_is_no_object(minio: MinioServer, location: str) -> None:
    """Hadoop's file system looks for an object with the name of the folder first, and ends if that is forbidden."""
    account = minio.account(location)
    for writes in (False, True):
        key = await S3Sessions(account).key_for(f"{location}t1/", writes=writes)
        statuses = [await status_of(account, key, "HEAD", f"{location}{name}") for name in ("t1", "t10", "t")]
        assert statuses == [404, 403, 403]
        assert await status_of(account, key, "PUT", f"{location}t1") == 403


def test_the_policy_of_a_table_that_was_moved_twice_is_accepted_by_amazon() -> None:
    warehouse = f"s3://acme-data-lake-production-eu/warehouse/{fresh.securable_id()}/tables/"
    locations = [f"{warehouse}{fresh.securable_id()}/" for _ in range(3)]
    assert len(policy_of(*locations, writes=True)) <= 2048


async def status_of(account: S3Account, key: S3Key, method: str, uri: str) -> int:
    """The status of a request that is signed with a key."""
    request = S3Request(method, f"{account.endpoint}/{uri.removeprefix('s3://')}", {})
    now_ms = time.time_ns() // 1_000_000
    signed = sign(key, account.region, request, understand(account, request), now_ms=now_ms)
    headers = {header: values[0] for header, values in signed.items()}
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        return (await http.request(method, request.uri, headers=headers)).status_code


async def test_a_store_that_enforces_signatures_needs_no_sessions(minio: MinioServer, location: str) -> None:
    account = replace(minio.account(location), is_strict=True, endpoint="http://127.0.0.1:1")
    assert await S3Sessions(account).key_for(location, writes=True) is KEY


async def test_a_refused_session_and_an_unreachable_store_give_different_errors(
    minio: MinioServer, location: str
) -> None:
    good = minio.account(location)
    stranger = S3Key(access_key_id="stranger", secret_access_key="x" * 20)
    for broken, words in (
        (replace(good, key=stranger), "it returned status 403"),
        (replace(good, endpoint="http://127.0.0.1:1"), "attempts failed"),
    ):
        with pytest.raises(Unavailable, match=words):
            await S3Sessions(broken).key_for(location, writes=False)


async def test_an_unreachable_store_is_retried_with_backoff(tmp_path: Path) -> None:
    now = 0.0
    with MinioServer(tmp_path) as own:
        sessions = S3Sessions(own.account(f"s3://{own.new_bucket()}/lake/"), clock=lambda: now)
        own.stop()
        assert not await sessions.are_available()
        now = 1.0
        assert not await sessions.are_available()
        own.start()
        now = 2.9
        assert not await sessions.are_available(), "two attempts failed, so the next one waits two seconds"
        now = 3.0
        assert await sessions.are_available()
        own.stop()
        now = 10_000.0
        assert await sessions.are_available(), (
            "a store that was available is not checked again; requests report the outage"
        )


async def test_concurrent_checks_of_an_unreachable_store_share_one_attempt(
    minio: MinioServer, location: str, caplog: pytest.LogCaptureFixture
) -> None:
    sessions = S3Sessions(replace(minio.account(location), endpoint="http://127.0.0.1:1"), clock=lambda: 0.0)
    assert await asyncio.gather(*[sessions.are_available() for _ in range(5)]) == [False] * 5
    assert [record.getMessage() for record in caplog.records if "cannot sign" in record.getMessage()] == [
        "cannot sign requests to http://127.0.0.1:1 for clients: "
        "the object store issued no session: All connection attempts failed"
    ]


class RoleEndpoint(BaseHTTPRequestHandler):
    """An STS that knows one role. Its sessions are those of MinIO, which has no roles."""

    forms: ClassVar[list[dict[str, str]]] = []
    store: ClassVar[str]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.forms.append(dict(parse_qsl(body.decode())))
        names = ("authorization", "content-type", "x-amz-date", "x-amz-content-sha256", "host")
        headers = {name: self.headers[name] for name in names}
        answer = httpx.post(f"{self.store}/", content=body, headers=headers, trust_env=False)
        self.send_response(answer.status_code)
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, *_: object) -> None:
        pass


async def test_a_role_is_assumed_with_its_external_id_at_its_own_endpoint(minio: MinioServer, location: str) -> None:
    RoleEndpoint.store = minio.endpoint
    with ThreadingHTTPServer(("127.0.0.1", 0), RoleEndpoint) as sts:
        Thread(target=sts.serve_forever, daemon=True).start()
        role = "arn:aws:iam::123456789012:role/lake"
        account = replace(
            minio.account(location),
            sts_endpoint=f"http://127.0.0.1:{sts.server_port}",
            role_arn=role,
            external_id="our-own",
            is_strict=True,
        )
        sessions = S3Sessions(account)
        storage = S3Storage(account, sessions)
        assert await storage.put_new(f"{location}t/", "a", b"1"), "the server itself uses the role"
        delegation = S3Delegation(account, sessions, storage)
        assert await delegation.vends()
        key = await delegation.vend([f"{location}t/"], writes=False)
        (url,) = await delegation.presign(f"{location}t/", ["a"], seconds=60)
        sts.shutdown()
    first, *others = RoleEndpoint.forms
    assert (first["RoleArn"], first["ExternalId"], "Policy" in first) == (role, "our-own", False)
    assert all((form["RoleArn"], form["ExternalId"]) == (role, "our-own") for form in others)
    assert json.loads(others[-1]["Policy"]) == json.loads(policy_of(f"{location}t/", writes=False))
    own = S3Key(access_key_id=key.access_key_id, secret_access_key=key.secret_access_key, token=key.session_token)
    client = S3Storage(replace(minio.account(location), key=own))
    assert await client.read(f"{location}t/", "a", limit=MUCH) == b"1"
    with pytest.raises(Unavailable, match="Denied"):
        await client.put_new(f"{location}t/", "b", b"")
    async with httpx.AsyncClient(trust_env=False) as http:
        assert (await http.get(url)).content == b"1"


async def test_urls_of_a_role_end_with_the_session_that_signs_them(minio: MinioServer, location: str) -> None:
    RoleEndpoint.store = minio.endpoint
    now = [0.0]
    with ThreadingHTTPServer(("127.0.0.1", 0), RoleEndpoint) as sts:
        Thread(target=sts.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{sts.server_port}"
        account = replace(minio.account(location), sts_endpoint=endpoint, role_arn="arn:aws:iam::1:role/lake")
        sessions = S3Sessions(account, lambda: now[0])
        delegation = S3Delegation(account, sessions, S3Storage(account, sessions))
        assert await delegation.url_seconds(60) == 60
        assert 3500 < await delegation.url_seconds(7200) <= 3600
        tokens = []
        for minute in (0, 29, 31):
            now[0] = minute * 60.0
            (url,) = await delegation.presign(f"{location}t/", ["a"], seconds=60)
            tokens.append(dict(parse_qsl(url))["X-Amz-Security-Token"])
        sts.shutdown()
    assert tokens[0] == tokens[1] != tokens[2], "no session signs URLs in the second half of its life"
    own = S3Delegation(minio.account(location), sessions, S3Storage(minio.account(location)))
    assert await own.url_seconds(7200) == 7200


def test_a_location_with_pattern_characters_gets_no_policy() -> None:
    for odd in ("s3://lake/a*/", "s3://lake/a?/", "s3://lake/${aws:username}/"):
        with pytest.raises(Unsupported):
            policy_of(odd, writes=False)


async def test_a_session_does_not_list_the_names_of_a_sibling(minio: MinioServer, location: str) -> None:
    account = minio.account(location)
    bucket, folder = location.removeprefix("s3://").split("/")[:2]
    id = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d20"
    statuses = []
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        for name in ("t1", id):
            key = await S3Sessions(account).key_for(f"{location}{name}/", writes=False)
            for prefix in (f"{folder}/{name}/", f"{folder}/{name}/part", f"{folder}/{name}", f"{folder}/", ""):
                request = S3Request("GET", f"{account.endpoint}/{bucket}?list-type=2&prefix={prefix}", {})
                now_ms = time.time_ns() // 1_000_000
                signed = sign(key, account.region, request, understand(account, request), now_ms=now_ms)
                headers = {header: values[0] for header, values in signed.items()}
                statuses.append((await http.get(request.uri, headers=headers)).status_code)
    assert statuses == [200, 200, 403, 403, 403, 200, 200, 200, 403, 403]
