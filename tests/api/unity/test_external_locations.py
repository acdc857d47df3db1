"""Storage credentials and external locations: several stores at once, encrypted secrets, and who may use them."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import force_setattr

from moorage.core.errors import Unavailable
from moorage.ledger.port import Ledger
from moorage.storage.s3 import S3Storage
from moorage.storage.secrets import SecretKeys, parse_keys
from moorage.testing.minio import PASSWORD, REGION, USER, MinioServer
from moorage.testing.storage_kit import MUCH
from moorage.usecases.storage.storage_credentials import reseal_due
from tests.api.house import House, done, on_s3, open_house
from tests.api.unity.test_vended_keys import ask, opened
from tests.api.unity.unity import Unity, invalid, refused

pytestmark = pytest.mark.xdist_group("s3")

KEY = base64.b64encode(b"k" * 32).decode()
NEXT_KEY = base64.b64encode(b"n" * 32).decode()
ROLE = "arn:aws:iam::123456789012:role/lake"


@pytest.fixture
def location(minio: MinioServer) -> str:
    return f"s3://{minio.new_bucket()}/lake/"


@pytest.fixture
async def house(minio: MinioServer, location: str, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "data", **{**on_s3(minio, location), "secret_key": KEY}) as house:
        yield house


@pytest.fixture
async def uc(house: House) -> Unity:
    uc = Unity(house.console.http)
    await uc.schema()
    return uc


def key_of(minio: MinioServer, **changes: Any) -> dict[str, Any]:
    store = {"endpoint": minio.endpoint, "region": REGION, "path_style": True}
    return {
        "name": "vault",
        "aws_access_key": {"access_key_id": USER, "secret_access_key": PASSWORD},
        "s3_store": store,
        **changes,
    }


async def create_location(uc: Unity, name: str, url: str, **given: Any) -> dict[str, Any]:
    body = {"name": name, "url": url, "credential_name": "vault", **given}
    return dict(done(await uc.post("/external-locations", body)))


@pytest.fixture
def other(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A second object store, with another endpoint."""
    with MinioServer(tmp_path_factory.mktemp("other")) as server:
        yield server


async def test_tables_of_two_stores_are_used_at_once(
    uc: Unity, minio: MinioServer, other: MinioServer, location: str
) -> None:
    bucket = other.new_bucket()
    done(await uc.post("/credentials", key_of(other)))
    made = await create_location(uc, "second", f"s3://{bucket}/second")
    assert (made["url"], made["credential_name"]) == (f"s3://{bucket}/second", "vault")
    here = await uc.external("here", f"{location}own/here")
    there = await uc.external("there", f"s3://{bucket}/second/there")
    for server, table, root in (
        (minio, here, f"{location}own/here/"),
        (other, there, f"s3://{bucket}/second/there/"),
    ):
        key = done(await ask(uc, "table", table_id=table["table_id"], operation="READ_WRITE"))
        assert await opened(server, key, root).put_new(root, "a", b"1")
    assert await S3Storage(other.account(f"s3://{bucket}/")).read(f"s3://{bucket}/second/there/", "a", limit=MUCH)
    refused(await ask(uc, "path", url=f"s3://{bucket}/else", operation="PATH_READ"), 400, "UNIMPLEMENTED")
    refused(await ask(uc, "path", url=f"s3://{bucket}/second10/x", operation="PATH_READ"), 400, "UNIMPLEMENTED")
    far = {"name": "far", "storage_root": f"s3://{bucket}/second/roots"}
    assert done(await uc.post("/catalogs", far))["storage_location"].startswith(f"s3://{bucket}/second/roots/")
    outside = await uc.post("/catalogs", {"name": "out", "storage_root": f"s3://{bucket}/third"})
    assert "is outside the allowed locations" in invalid(outside)


async def test_the_longest_location_decides(uc: Unity, minio: MinioServer, location: str) -> None:
    done(await uc.post("/credentials", key_of(minio)))
    stranger = {"access_key_id": "stranger", "secret_access_key": "x" * 20}
    done(await uc.post("/credentials", key_of(minio, name="wrong", aws_access_key=stranger)))
    refused_one = {"name": "inner", "url": f"{location}a/b", "credential_name": "wrong"}
    assert "does not open" in invalid(await uc.post("/external-locations", refused_one))
    done(await uc.post("/external-locations", {**refused_one, "skip_validation": True}))
    await create_location(uc, "outer", f"{location}a")
    done(await ask(uc, "path", url=f"{location}a/c", operation="PATH_READ"))
    refused(await ask(uc, "path", url=f"{location}a/b/c", operation="PATH_READ"), 400, "UNIMPLEMENTED")
    done(await uc.patch("/external-locations/inner", {"credential_name": "vault"}))
    done(await ask(uc, "path", url=f"{location}a/b/c", operation="PATH_READ"))
    taken = {"name": "again", "url": f"{location}a/", "credential_name": "vault"}
    assert "already has the folder" in invalid(await uc.post("/external-locations", taken))


async def test_credentials_and_locations_are_listed_changed_and_deleted(
    uc: Unity, minio: MinioServer, location: str
) -> None:
    made = done(await uc.post("/credentials", key_of(minio, comment="Archive.")))
    assert made["aws_access_key"] == {"access_key_id": USER}
    assert (made["s3_store"]["endpoint"], made["purpose"], made["comment"]) == (minio.endpoint, "STORAGE", "Archive.")
    refused(await uc.post("/credentials", key_of(minio)), 400, "RESOURCE_ALREADY_EXISTS")
    await create_location(uc, "archive", f"{location}archive")
    assert [each["name"] for each in done(await uc.get("/credentials"))["credentials"]] == ["vault"]
    assert [each["name"] for each in done(await uc.get("/external-locations"))["external_locations"]] == ["archive"]
    table = await uc.external("old", f"{location}archive/old")
    refused(await uc.delete("/credentials/vault"), 400, "FAILED_PRECONDITION")
    refused(await uc.delete("/external-locations/archive"), 400, "FAILED_PRECONDITION")
    moved = await uc.patch("/external-locations/archive", {"url": f"{location}elsewhere"})
    refused(moved, 400, "FAILED_PRECONDITION")
    renamed = done(await uc.patch("/external-locations/archive", {"new_name": "cold", "comment": "Cold."}))
    assert (renamed["name"], renamed["comment"]) == ("cold", "Cold.")
    refused(await uc.get("/external-locations/archive"), 404, "NOT_FOUND")

    # Another store needs the key again: a caller that may change the credential may not know the key.
    elsewhere = {"s3_store": {"endpoint": "https://s3.example", "region": REGION}}
    assert "given again" in invalid(await uc.patch("/credentials/vault", elsewhere))
    wrong = {"aws_access_key": {"access_key_id": USER, "secret_access_key": "wrong" * 4}}
    done(await uc.patch("/credentials/vault", wrong))
    body = {"table_id": table["table_id"], "operation": "READ"}
    refused(await ask(uc, "table", **body), 400, "UNIMPLEMENTED")
    right = {"aws_access_key": {"access_key_id": USER, "secret_access_key": PASSWORD}}
    done(await uc.patch("/credentials/vault", right))
    done(await ask(uc, "table", **body))

    done(await uc.delete("/credentials/vault", force=True))
    assert "was deleted" in refused(await ask(uc, "table", **body), 503, "UNAVAILABLE")
    done(await uc.delete("/external-locations/cold", force=True))
    done(await ask(uc, "table", **body))  # the store of the settings has the folder, too
    refused(await uc.get("/credentials/vault"), 404, "NOT_FOUND")


async def test_invalid_credentials_are_refused(uc: Unity, minio: MinioServer, location: str) -> None:
    for wrong, field in (
        ({"name": "a"}, "aws_iam_role"),
        ({"name": "a", "aws_iam_role": {"role_arn": "admin"}}, "role_arn"),
        (key_of(minio, s3_store={"endpoint": "http://127.0.0.1:1", "path_style": False}), "path_style"),
        (key_of(minio, s3_store={"endpoint": "file:///etc", "path_style": True}), "endpoint"),
        (key_of(minio, s3_store={"endpoint": "http://u:p@h", "path_style": True}), "endpoint"),
        (key_of(minio, s3_store={"endpoint": "http://h/path", "path_style": True}), "endpoint"),
        (key_of(minio, name="a.b"), "name"),
    ):
        assert field in invalid(await uc.post("/credentials", wrong))
    done(await uc.post("/credentials", key_of(minio)))
    for url in ("file:///data", "s3://b/a/../c", "nowhere"):
        body = {"name": "a", "url": url, "credential_name": "vault"}
        assert "url" in invalid(await uc.post("/external-locations", body))
    missing = {"name": "a", "url": f"{location}x", "credential_name": "none"}
    refused(await uc.post("/external-locations", missing), 404, "NOT_FOUND")


async def test_a_secret_is_only_in_the_answers_of_the_store(
    house: House, uc: Unity, minio: MinioServer, location: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = "canary-4711-secret-word"
    stranger = {"access_key_id": "stranger", "secret_access_key": canary}
    answers = [
        await uc.post("/credentials", key_of(minio, aws_access_key=stranger)),
        await uc.post("/credentials", key_of(minio, aws_access_key=stranger)),
        await uc.post("/credentials", key_of(minio, name="x", aws_access_key={**stranger, "access_key_id": 1})),
        await uc.post("/external-locations", {"name": "a", "url": f"{location}x", "credential_name": "vault"}),
        await uc.get("/credentials"),
        await uc.get("/credentials/vault"),
        await uc.patch("/credentials/vault", {"aws_access_key": stranger}),
        await house.console.get("/feed"),
        await house.console.http.get("/metrics"),
    ]
    assert [answer.status_code for answer in answers] == [200, 400, 400, 400, 200, 200, 200, 200, 200]
    assert "sealed" not in "".join(answer.text for answer in answers), "not even encrypted"
    entries = await house.ledger.entries(0, limit=1000)
    texts = [answer.text + str(answer.headers) for answer in answers]
    texts += [caplog.text, repr(entries), repr(house.ports.stores), repr(house.ports.secrets), repr(house.ports)]
    files = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert not [text for text in texts if canary in text or KEY in text]
    assert canary.encode() not in files
    assert base64.b64encode(canary.encode()) not in files


async def test_secrets_are_encrypted_again_with_a_new_key(house: House, uc: Unity, minio: MinioServer) -> None:
    done(await uc.post("/credentials", key_of(minio)))
    assert await reseal_due(house.ports) == 0
    before = await sealed(house.ledger)
    rotated = SecretKeys(*parse_keys(f"{NEXT_KEY},{KEY}"))
    force_setattr(house.ports, "secrets", rotated)
    assert await reseal_due(house.ports) == 1
    assert await reseal_due(house.ports) == 0
    after = await sealed(house.ledger)
    id = done(await uc.get("/credentials/vault"))["id"]
    assert before != after
    assert SecretKeys(*parse_keys(NEXT_KEY)).open(after, owner=id) == PASSWORD
    with pytest.raises(Unavailable, match="does not have"):
        SecretKeys(*parse_keys(KEY)).open(after, owner=id)
    with pytest.raises(Unavailable, match="damaged"):
        rotated.open(after, owner="another object")


async def sealed(ledger: Ledger) -> str:
    from moorage.core.securables import Shelf

    (found,) = (await ledger.children(ledger.root, Shelf.CREDENTIAL)).items
    return str(found.doc.details["sealed"])


async def test_a_server_without_a_key_stores_no_secret(tmp_path: Path, minio: MinioServer) -> None:
    async with open_house(tmp_path / "data") as house:
        uc = Unity(house.console.http)
        answer = await uc.post("/credentials", key_of(minio))
        assert "MOORAGE_SECRET_KEY" in refused(answer, 400, "UNIMPLEMENTED")
        made = done(await uc.post("/credentials", {"name": "role", "aws_iam_role": {"role_arn": ROLE}}))
        assert made["aws_iam_role"]["external_id"] == made["id"]


def test_keys_are_32_bytes_of_base64() -> None:
    assert parse_keys(f"{KEY}\n{NEXT_KEY}\n") == (b"k" * 32, b"n" * 32)
    for wrong in ("", "short", base64.b64encode(b"x" * 16).decode(), f"{KEY},nonsense!"):
        with pytest.raises(ValueError, match="openssl rand"):
            parse_keys(wrong)
