"""Signatures equal those in Amazon's published examples."""

from __future__ import annotations

import hashlib

import pytest

from moorage.storage.s3_account import S3Key
from moorage.storage.sigv4 import amz_date, authorization, host_of

NOTHING = hashlib.sha256(b"").hexdigest()
AT = "20130524T000000Z"
HOST = "examplebucket.s3.amazonaws.com"

# "Signature Calculations for the Authorization Header" in the API reference of Amazon S3.
EXAMPLES = {
    "get an object": (
        "GET",
        "/test.txt",
        {"range": "bytes=0-9", "x-amz-content-sha256": NOTHING},
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    "put an object": (
        "PUT",
        "/test$file.text",
        {
            "date": "Fri, 24 May 2013 00:00:00 GMT",
            "x-amz-content-sha256": hashlib.sha256(b"Welcome to Amazon S3.").hexdigest(),
            "x-amz-storage-class": "REDUCED_REDUNDANCY",
        },
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    "get the lifecycle of a bucket": (
        "GET",
        "/?lifecycle",
        {"x-amz-content-sha256": NOTHING},
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    "list a bucket": (
        "GET",
        "/?max-keys=2&prefix=J",
        {"x-amz-content-sha256": NOTHING},
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
}


def signed(method: str, path: str, headers: dict[str, str]) -> str:
    return authorization(
        method,
        f"https://{HOST}{path}",
        {"host": HOST, "x-amz-date": AT, **headers},
        key=S3Key(access_key_id="AKIAIOSFODNN7EXAMPLE", secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        region="us-east-1",
    )


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_published_examples_have_their_published_signatures(example: str) -> None:
    method, path, headers, signature = EXAMPLES[example]
    names = ";".join(sorted({"host", "x-amz-date", *headers}))
    assert signed(method, path, headers) == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}"
    )


def test_two_spellings_of_one_request_have_one_signature() -> None:
    payload = {"x-amz-content-sha256": NOTHING}
    for one, other in (
        ("/day=1/a b.parquet", "/day%3D1/a%20b.parquet"),
        ("/a?list-type=2&prefix=x/y", "/a?prefix=x%2Fy&list-type=2"),
        ("/a?uploads", "/a?uploads="),
        ("/%C3%BC", "/ü"),
    ):
        assert signed("GET", one, payload) == signed("GET", other, payload)
    assert signed("GET", "/a", payload) != signed("GET", "/b", payload)
    assert signed("GET", "/a", payload) != signed("HEAD", "/a", payload)
    assert signed("GET", "/a%252Fb", payload) != signed("GET", "/a%2Fb", payload)


def test_host_and_date_are_written_as_clients_send_them() -> None:
    assert host_of("https://s3.amazonaws.com:443/x") == "s3.amazonaws.com"
    assert host_of("http://127.0.0.1:9000/x") == "127.0.0.1:9000"
    assert host_of("http://[::1]:9000/x") == "[::1]:9000"
    assert amz_date(1369353600999) == AT
