"""Signatures for requests to object stores, for clients that have no credentials."""

from __future__ import annotations

from typing import Literal

from moorage.api.iceberg.api import iceberg, relation_of
from moorage.api.iceberg.bodies import EXAMPLE_TABLE, Kebab, Properties
from moorage.api.iceberg.tables import MISSING
from moorage.core.errors import Forbidden, InvalidInput, Unsupported
from moorage.core.securables import Kind
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.iceberg import signing
from moorage.usecases.ports import Ports

MultiValuedMap = dict[str, tuple[str, ...]]


class RemoteSignRequest(Kebab, frozen=True, kw_only=True):
    """A request to an object store that the client is about to send."""

    region: str
    uri: str
    method: Literal["PUT", "GET", "HEAD", "POST", "DELETE", "PATCH", "OPTIONS"]
    headers: MultiValuedMap
    properties: Properties | None = None
    body: str | None = None
    provider: str | None = None


class RemoteSignResult(Kebab, frozen=True, kw_only=True):
    """The same request, signed."""

    uri: str
    headers: MultiValuedMap


_URI = "https://lake.s3.eu-north-1.amazonaws.com/data/00000.parquet"


@iceberg.post(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/sign",
    operation="signRequest",
    summary="Sign a request to an object store.",
    stage="public_preview",
    tags=("tables",),
    body=RemoteSignRequest,
    answer=RemoteSignResult,
    errors=(InvalidInput, Forbidden, Unsupported, *MISSING),
    mutation=False,
    example=Example(
        path=EXAMPLE_TABLE,
        body={"region": "eu-north-1", "uri": _URI, "method": "GET", "headers": {"Host": ["lake.s3.amazonaws.com"]}},
        answer={"uri": _URI, "headers": {"Authorization": ["AWS4-HMAC-SHA256 …"]}},
    ),
)
async def sign_request(call: Call[RemoteSignRequest, NoQuery], ports: Ports) -> Answer:
    """Sign a request to read, write, list or delete files of one table, with the server's own key.

    The server refuses a request for other files, and a request that it does not recognise. A request to delete many
    objects must include its body. `region` is ignored: the server knows the region of its buckets.
    """
    body = call.body
    if body.provider not in (None, "s3"):
        raise Unsupported(f"provider '{body.provider}' is not supported; the server signs requests to s3 only")
    signed = await signing.sign_request(
        ports,
        call.caller,
        relation_of(call, Kind.TABLE),
        method=body.method,
        uri=body.uri,
        headers=body.headers,
        body=body.body,
    )
    # A client may cache the signature of a read, which saves one signing request for every part of a file.
    caching = (b"cache-control", b"private" if signed.reads_only else b"no-cache")
    return Answer.json(RemoteSignResult(uri=body.uri, headers=signed.headers), headers=(caching,))
