"""Requests to object stores, signed for clients that have no credentials."""

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
    """A request to an object store, about to be sent."""

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
    """Sign a request to read, write, list or delete files of one table, by the server's own key.

    A request that reaches further is refused, and so is one whose meaning is not known. A request to delete many
    objects has to bring its body. The region is the server's: it knows where its buckets are.
    """
    body = call.body
    if body.provider not in (None, "s3"):
        raise Unsupported(f"provider: requests to '{body.provider}' are not signed, only those to s3")
    signed = await signing.sign_request(
        ports,
        call.caller,
        relation_of(call, Kind.TABLE),
        method=body.method,
        uri=body.uri,
        headers=body.headers,
        body=body.body,
    )
    # What only reads may be sent again for a while, which saves a question for every part of a file.
    keep = (b"cache-control", b"private" if signed.reads_only else b"no-cache")
    return Answer.json(RemoteSignResult(uri=body.uri, headers=signed.headers), headers=(keep,))
