"""The server signs only requests that it fully understands and that stay within a location."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from msgspec.structs import replace

from moorage.core.errors import Forbidden, InvalidInput
from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.s3_requests import S3Request, sign, understand

ACCOUNT = S3Account(
    endpoint="http://store:9000",
    region="eu-north-1",
    key=S3Key(access_key_id="id", secret_access_key="swordfish"),
    path_style=True,
    locations=("s3://lake/",),
    is_strict=True,
)
ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d00"
LOCATION = f"s3://lake/tables/{ID}/"
TABLE = f"http://store:9000/lake/tables/{ID}"
BUCKET = "http://store:9000/lake"


def request_of(method: str, uri: str, headers: dict[str, str] | None = None, body: str | None = None) -> S3Request:
    return S3Request(method, uri, {name: (value,) for name, value in (headers or {}).items()}, body)


def writes_within(request: S3Request) -> bool:
    """Whether the request writes. Raises Forbidden if it leaves the table."""
    parsed = understand(ACCOUNT, request)
    parsed.require_within(LOCATION)
    return parsed.writes


def deletion(*keys: str, also: str = "") -> str:
    named = "".join(f"<Object><Key>{key}</Key>{also}</Object>" for key in keys)
    return f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Quiet>true</Quiet>{named}</Delete>'


READS: dict[str, tuple[str, str]] = {
    "a file": ("GET", f"{TABLE}/data/a.parquet"),
    "its metadata": ("HEAD", f"{TABLE}/data/a.parquet"),
    "odd characters": ("GET", f"{TABLE}/data/day=1%2F2/a%20b+c%25ü.parquet"),
    "the name of the operation too": ("GET", f"{TABLE}/a?x-id=GetObject"),
    "the bucket in the host": ("GET", f"http://lake.store:9000/tables/{ID}/a"),
    "a listing": ("GET", f"{BUCKET}?list-type=2&prefix=tables/{ID}/&delimiter=%2F&max-keys=1"),
    "a listing of a part": ("GET", f"{BUCKET}/?list-type=2&prefix=tables%2F{ID}%2Fda"),
    "a listing without the slash": ("GET", f"{BUCKET}?prefix=tables/{ID}&list-type=2"),
}
WRITES: dict[str, tuple[Any, ...]] = {
    "a file": ("PUT", f"{TABLE}/a"),
    "a file that is its own": ("PUT", f"{TABLE}/a", {"x-amz-acl": "bucket-owner-full-control"}),
    "a copy inside of the table": ("PUT", f"{TABLE}/a", {"x-amz-copy-source": f"/lake/tables/{ID}/b"}),
    "an upload begins": ("POST", f"{TABLE}/a?uploads"),
    "a part of an upload": ("PUT", f"{TABLE}/a?partNumber=1&uploadId=u"),
    "an upload is completed": ("POST", f"{TABLE}/a?uploadId=u"),
    "an upload is aborted": ("DELETE", f"{TABLE}/a?uploadId=u"),
    "a deletion": ("DELETE", f"{TABLE}/a"),
    "many deletions": ("POST", f"{BUCKET}?delete", {}, deletion(f"tables/{ID}/a", f"tables/{ID}/b")),
}
REFUSED: dict[str, tuple[Any, ...]] = {
    "another table": ("GET", f"{BUCKET}/tables/01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d01/a"),
    "a name that begins like it": ("GET", f"{TABLE}x/a"),
    "the folder itself": ("GET", TABLE),
    "another bucket": ("GET", f"http://store:9000/other/tables/{ID}/a"),
    "another bucket in the host": ("GET", f"http://other.store:9000/tables/{ID}/a"),
    "another host": ("GET", f"http://elsewhere:9000/lake/tables/{ID}/a"),
    "another port": ("GET", f"http://store:9001/lake/tables/{ID}/a"),
    "another scheme": ("GET", f"https://store:9000/lake/tables/{ID}/a"),
    "a host that ends like it": ("GET", f"http://evilstore:9000/lake/tables/{ID}/a"),
    "a user in the address": ("GET", f"http://store:9000@elsewhere/lake/tables/{ID}/a"),
    "a parent folder": ("GET", f"{TABLE}/../other/a"),
    "an encoded parent folder": ("GET", f"{TABLE}/%2e%2e/other/a"),
    "a parent folder after an encoded slash": ("GET", f"{TABLE}%2F..%2Fother/a"),
    "an empty name": ("GET", f"{TABLE}//a"),
    "no bucket": ("GET", "http://store:9000/"),
    "a bucket's policy": ("GET", f"{BUCKET}?policy"),
    "a bucket": ("DELETE", BUCKET),
    "an access control list": ("PUT", f"{TABLE}/a?acl"),
    "an older version": ("GET", f"{TABLE}/a?versionId=1"),
    "a deletion of an older version": ("DELETE", f"{TABLE}/a?versionId=1"),
    "one parameter twice": ("PUT", f"{TABLE}/a?partNumber=1&partNumber=2&uploadId=u"),
    "a public file": ("PUT", f"{TABLE}/a", {"X-Amz-Acl": "public-read"}),
    "a file with a grant": ("PUT", f"{TABLE}/a", {"x-amz-grant-read": "id=1"}),
    "a bypass of a retention lock": ("DELETE", f"{TABLE}/a", {"x-amz-bypass-governance-retention": "true"}),
    "a copy of another table": ("PUT", f"{TABLE}/a", {"x-amz-copy-source": "/lake/tables/other/b"}),
    "a copy of another bucket": ("PUT", f"{TABLE}/a", {"x-amz-copy-source": f"/other/tables/{ID}/b"}),
    "a copy from a parent folder": ("PUT", f"{TABLE}/a", {"x-amz-copy-source": f"lake/tables/{ID}/%2e%2e/other/b"}),
    "a copy of a version": ("PUT", f"{TABLE}/a", {"x-amz-copy-source": f"/lake/tables/{ID}/b?versionId=1"}),
    "a body signed in chunks": ("PUT", f"{TABLE}/a", {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}),
    "a listing of everything": ("GET", f"{BUCKET}?list-type=2"),
    "a listing of all tables": ("GET", f"{BUCKET}?list-type=2&prefix=tables/"),
    "a listing of another": ("GET", f"{BUCKET}?list-type=2&prefix=tables/{ID}x"),
    "a listing of versions": ("GET", f"{BUCKET}?list-type=2&versions&prefix=tables/{ID}/"),
    "a listing without list-type": ("GET", f"{BUCKET}?prefix=tables/{ID}/"),
    "a deletion elsewhere": ("POST", f"{BUCKET}?delete", {}, deletion(f"tables/{ID}/a", "tables/other/b")),
    "a deletion in a parent folder": ("POST", f"{BUCKET}?delete", {}, deletion(f"tables/{ID}/../other/b")),
    "a deletion of a version": (
        "POST",
        f"{BUCKET}?delete",
        {},
        deletion(f"tables/{ID}/a", also="<VersionId>1</VersionId>"),
    ),
    "a deletion by an entity": (
        "POST",
        f"{BUCKET}?delete",
        {},
        f'<!DOCTYPE Delete [<!ENTITY e "x">]>{deletion(f"tables/{ID}/a")}',
    ),
    "an unknown element": ("POST", f"{BUCKET}?delete", {}, "<Delete><All>true</All></Delete>"),
    "options": ("OPTIONS", f"{TABLE}/a"),
}


@pytest.mark.parametrize("case", READS)
def test_a_request_that_reads_the_table_is_recognised_as_a_read(case: str) -> None:
    assert writes_within(request_of(*READS[case])) is False


@pytest.mark.parametrize("case", WRITES)
def test_a_request_that_changes_the_table_is_recognised_as_a_write(case: str) -> None:
    assert writes_within(request_of(*WRITES[case])) is True


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_that_leaves_the_table_or_is_not_understood_is_forbidden(case: str) -> None:
    with pytest.raises(Forbidden) as refusal:
        writes_within(request_of(*REFUSED[case]))
    assert "swordfish" not in refusal.value.message


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (request_of("POST", f"{BUCKET}?delete"), "body"),
        (request_of("POST", f"{BUCKET}?delete", body="no XML"), "body"),
        (request_of("GET", "http://[::1/lake/a"), "uri"),
        (request_of("GET", "http://store:port/lake/a"), "uri"),
    ],
)
def test_the_error_for_an_invalid_request_names_its_field(request_: S3Request, field: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        understand(ACCOUNT, request_)
    assert refusal.value.field == field


def test_a_folder_is_listed_without_its_slash_only_if_its_name_is_an_id() -> None:
    parsed = understand(ACCOUNT, request_of("GET", f"{BUCKET}?list-type=2&prefix=tables/orders"))
    with pytest.raises(Forbidden):
        parsed.require_within("s3://lake/tables/orders/")


def test_the_signature_covers_the_meaningful_headers_and_the_answer_keeps_the_others() -> None:
    sent = {"Range": "bytes=0-9", "X-Amz-Meta-A": "b", "User-Agent": "x", "Authorization": "old", "X-Amz-Date": "old"}
    request = request_of("GET", f"{TABLE}/a", sent)
    headers = sign(ACCOUNT.key, ACCOUNT.region, request, understand(ACCOUNT, request), now_ms=0)
    assert headers["Range"] == ("bytes=0-9",)
    assert headers["x-amz-date"] == ("19700101T000000Z",)
    assert headers["x-amz-content-sha256"] == ("UNSIGNED-PAYLOAD",)
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-meta-a," in headers["Authorization"][0]
    assert "X-Amz-Date" not in headers
    assert "swordfish" not in str(headers)


def test_a_multi_delete_is_signed_for_the_body_that_was_checked() -> None:
    body = deletion(f"tables/{ID}/ü")
    request = request_of("POST", f"{BUCKET}?delete", {"Content-MD5": "x"}, body)
    headers = sign(ACCOUNT.key, ACCOUNT.region, request, understand(ACCOUNT, request), now_ms=0)
    assert headers["x-amz-content-sha256"] == (hashlib.sha256(body.encode()).hexdigest(),)
    assert "SignedHeaders=content-md5;host;" in headers["Authorization"][0]


def test_with_a_restricted_key_a_multi_delete_needs_no_body_but_a_given_body_is_checked() -> None:
    lenient = replace(ACCOUNT, is_strict=False)
    parsed = understand(lenient, request_of("POST", f"{BUCKET}?delete"))
    parsed.require_within(LOCATION)
    assert (parsed.writes, parsed.payload) == (True, "UNSIGNED-PAYLOAD")
    with pytest.raises(Forbidden):
        parsed.require_within(LOCATION.replace("lake", "other"))
    shown = understand(lenient, request_of("POST", f"{BUCKET}?delete", body=deletion("tables/other/a")))
    with pytest.raises(Forbidden):
        shown.require_within(LOCATION)


def test_the_token_of_a_session_key_is_signed_and_sent() -> None:
    request = request_of("GET", f"{TABLE}/a")
    key = S3Key(access_key_id="id", secret_access_key="x", token="t")
    headers = sign(key, "eu-north-1", request, understand(ACCOUNT, request), now_ms=0)
    assert headers["x-amz-security-token"] == ("t",)
    assert ";x-amz-security-token," in headers["Authorization"][0]
    with pytest.raises(Forbidden):
        writes_within(request_of("GET", f"{TABLE}/a", {"x-amz-security-token": "mine"}))


def test_the_text_of_an_account_does_not_contain_its_secret() -> None:
    assert "swordfish" not in repr(ACCOUNT)
    assert "swordfish" not in str(ACCOUNT) + repr(ACCOUNT.key)


def test_a_request_for_several_locations_is_within_their_union_and_in_none_alone() -> None:
    former = "s3://lake/old/"
    parsed = understand(ACCOUNT, request_of("POST", f"{BUCKET}?delete", body=deletion(f"tables/{ID}/a", "old/a")))
    parsed.require_within(LOCATION, former)
    for location in (LOCATION, former):
        with pytest.raises(Forbidden, match="is not a file below"):
            parsed.require_within(location)
    for prefix, is_within in (("old/", True), ("old/da", True), ("old", False), ("", False)):
        listing = understand(ACCOUNT, request_of("GET", f"{BUCKET}?list-type=2&prefix={prefix}"))
        if is_within:
            listing.require_within(LOCATION, former)
        else:
            with pytest.raises(Forbidden, match="includes objects outside"):
                listing.require_within(LOCATION, former)
