"""Parsing and signing of S3 requests that a client is about to send.

The server signs only operations that it recognises: reading, writing and deleting whole objects, multipart uploads,
and listings. An unknown header or parameter could affect more than the object that the URL names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree

from moorage.core.errors import Forbidden, InvalidInput
from moorage.core.ids import is_id
from moorage.storage.confine import require_key
from moorage.storage.s3_account import S3Account, S3Key
from moorage.storage.sigv4 import UNSIGNED_PAYLOAD, amz_date, authorization, host_of


class S3Request(NamedTuple):
    """A request as the client will send it. The body is needed only for a request that deletes many objects."""

    method: str
    uri: str
    headers: Mapping[str, tuple[str, ...]]
    body: str | None = None


class Wish(NamedTuple):
    """What a request would do, and to which objects: those with these keys, or all with this key prefix."""

    bucket: str
    keys: tuple[str, ...]
    prefix: str | None
    writes: bool
    payload: str
    """The value of x-amz-content-sha256: the digest of the body, or a constant that leaves the body unsigned."""

    def require_within(self, *locations: str) -> None:
        """Raise Forbidden unless everything is below these locations, which end with a slash."""
        if not any(location.startswith(f"s3://{self.bucket}/") for location in locations):
            raise Forbidden(f"the bucket '{self.bucket}' is not the bucket of '{locations[0]}'")
        for key in self.keys:
            if not f"s3://{self.bucket}/{key}".startswith(locations):
                raise Forbidden(f"'s3://{self.bucket}/{key}' is not a file below '{locations[0]}'")
        if self.prefix is None:
            return
        listed = f"s3://{self.bucket}/{self.prefix}"
        # Some clients list a table's folder without its slash. That is safe if the folder's name is an id: no other
        # name begins with it.
        is_folder = f"{listed}/" in locations and is_id(self.prefix.rpartition("/")[2])
        if not is_folder and not listed.startswith(locations):
            raise Forbidden(f"the prefix '{listed}' includes objects outside '{locations[0]}'")


_READ_OPERATIONS: Final = frozenset({("GET", ()), ("GET", ("partNumber",)), ("HEAD", ())})
_WRITE_OPERATIONS: Final = frozenset(
    {
        ("PUT", ()),
        ("PUT", ("partNumber", "uploadId")),
        ("POST", ("uploads",)),
        ("POST", ("uploadId",)),
        ("DELETE", ()),
        ("DELETE", ("uploadId",)),
    }
)
_LIST_PARAMETERS: Final = frozenset(
    (
        "continuation-token",
        "delimiter",
        "encoding-type",
        "fetch-owner",
        "list-type",
        "max-keys",
        "prefix",
        "start-after",
    )
)
_SIGNABLE_HEADERS: Final = re.compile(
    r"x-amz-(content-sha256|date|checksum-[a-z0-9-]+|sdk-checksum-algorithm|meta-[\x21-\x7e]+|server-side-encryption[a-z-]*"
    r"|storage-class|tagging|te|trailer|decoded-content-length|expected-bucket-owner|user-agent|acl|copy-source)"
)
_PRIVATE_ACLS: Final = frozenset(("private", "bucket-owner-full-control"))
_SIGNABLE_PAYLOAD: Final = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")


def understand(account: S3Account, request: S3Request) -> Wish:
    """Return what the request would do. Raises Forbidden if the server does not recognise it."""
    bucket, key = _object_of(account, request.uri)
    query = _query_of(request.uri)
    headers = _headers_of(request)
    payload = headers.get("x-amz-content-sha256", UNSIGNED_PAYLOAD)
    if not _SIGNABLE_PAYLOAD.fullmatch(payload):
        raise Forbidden(f"requests with x-amz-content-sha256 {payload} are not signed; use {UNSIGNED_PAYLOAD}")
    if key:
        operation = request.method, tuple(sorted(query))
        if operation not in _READ_OPERATIONS | _WRITE_OPERATIONS:
            raise Forbidden(f"{request.method} requests with the parameters {sorted(query)} are not signed")
        keys = (key, *_copied_keys(headers, bucket))
        return Wish(bucket, tuple(_require_key(each) for each in keys), None, operation in _WRITE_OPERATIONS, payload)
    if request.method == "GET" and query.get("list-type") == "2" and query.keys() <= _LIST_PARAMETERS:
        return Wish(bucket, (), query.get("prefix", ""), writes=False, payload=payload)
    if request.method == "POST" and query == {"delete": ""}:
        if request.body is None and not account.is_strict:  # the restricted key cannot delete other objects
            return Wish(bucket, (), None, writes=True, payload=payload)
        digest, keys = _deleted_keys(request.body)
        return Wish(bucket, tuple(_require_key(each) for each in keys), None, writes=True, payload=digest)
    raise Forbidden(f"{request.method} requests on the bucket '{bucket}' are not signed")


def sign(key: S3Key, region: str, request: S3Request, wish: Wish, *, now_ms: int) -> dict[str, tuple[str, ...]]:
    """Return the headers to send with the request: its own, and those of the signature."""
    proof = {"x-amz-date": amz_date(now_ms), "x-amz-content-sha256": wish.payload}
    if key.token is not None:
        proof["x-amz-security-token"] = key.token
    # Range, User-Agent and the like are not signed: clients reuse a signature for a while with other values.
    own = {n: v for n, v in _headers_of(request).items() if n.startswith("x-amz-") or n == "content-md5"}
    authorized = authorization(
        request.method,
        request.uri,
        {"host": host_of(request.uri), **own, **proof},
        key=key,
        region=region,
    )
    kept = {n: v for n, v in request.headers.items() if n.lower() not in ("authorization", *proof)}
    return {**kept, **{n: (v,) for n, v in proof.items()}, "Authorization": (authorized,)}


def _object_of(account: S3Account, uri: str) -> tuple[str, str]:
    """Return the bucket and the key of a URL. The bucket is in its path or in its host name."""
    try:
        parts, host, own = urlsplit(uri), host_of(uri), host_of(account.endpoint)
    except ValueError:
        raise InvalidInput(f"uri: {uri!r} is not a URL", field="uri") from None
    path = unquote(parts.path)
    if parts.scheme != urlsplit(account.endpoint).scheme or parts.fragment or "@" in parts.netloc:
        raise Forbidden(f"'{uri}' is not a URL of the object store at {account.endpoint}")
    if host == own:
        bucket, _, key = path.removeprefix("/").partition("/")
    elif host.endswith(f".{own}"):
        bucket, key = host.removesuffix(f".{own}"), path.removeprefix("/")
    else:
        raise Forbidden(f"'{uri}' is not a URL of the object store at {account.endpoint}")
    return bucket, key


def _query_of(uri: str) -> dict[str, str]:
    pairs = parse_qsl(urlsplit(uri).query, keep_blank_values=True)
    query = dict(pairs)
    if len(query) < len(pairs):
        raise Forbidden("requests that repeat a query parameter are not signed")
    query.pop("x-id", None)  # some clients add the operation's name here; stores ignore it
    return query


def _headers_of(request: S3Request) -> dict[str, str]:
    """Return the headers by lower-case name. Raises Forbidden for a header that could change what the request does."""
    headers = {name.lower(): ",".join(values) for name, values in request.headers.items()}
    for name, value in headers.items():
        if name.startswith("x-amz-") and not _SIGNABLE_HEADERS.fullmatch(name):
            raise Forbidden(f"requests with the header {name} are not signed")
        if name == "x-amz-acl" and value not in _PRIVATE_ACLS:
            raise Forbidden(f"requests with x-amz-acl {value!r} are not signed; use one of {sorted(_PRIVATE_ACLS)}")
    return headers


def _copied_keys(headers: Mapping[str, str], bucket: str) -> tuple[str, ...]:
    """Return the key of the object that a request copies: the store would read it with the server's permissions."""
    source = headers.get("x-amz-copy-source")
    if source is None:
        return ()
    found, _, key = unquote(source).removeprefix("/").partition("/")
    if found != bucket or "?" in source:
        raise Forbidden(f"'{source}' is not an object of the bucket '{bucket}'")
    return (key,)


def _deleted_keys(body: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the digest of a body that lists objects to delete, and their keys.

    The digest is part of the signature, so the client cannot send another body.
    """
    if not body:
        raise InvalidInput("body: a request that deletes many objects must include its body", field="body")
    if "<!" in body:
        raise Forbidden("requests with a body that contains '<!' (an XML entity or doctype declaration) are not signed")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - entity declarations, the danger, were refused above
    except ElementTree.ParseError:
        raise InvalidInput("body: must be XML", field="body") from None
    keys = []
    for part in root:
        match _name(part), {_name(field): field.text or "" for field in part}:
            case "Quiet", {}:
                pass
            case "Object", {"Key": key, **others} if not others:
                keys.append(key)
            case name, fields:
                raise Forbidden(f"requests to delete <{name}> with {sorted(fields)} are not signed")
    return hashlib.sha256(body.encode()).hexdigest(), tuple(keys)


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _require_key(key: str) -> str:
    try:
        return require_key(key)
    except InvalidInput as error:
        raise Forbidden(error.message) from None
