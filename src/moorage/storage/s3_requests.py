"""Requests to S3 that somebody else is about to send: what each of them would do.

Only what is understood here is ever signed: whole objects that are read, written and deleted, uploads in parts, and
listings. A header or a parameter that is not known could reach further than the address says.
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
    """A request as it will be sent. Only a request to delete many objects needs to show its body."""

    method: str
    uri: str
    headers: Mapping[str, tuple[str, ...]]
    body: str | None = None


class Wish(NamedTuple):
    """What a request would do, and to which objects: those with these keys, or all whose keys begin with a prefix."""

    bucket: str
    keys: tuple[str, ...]
    prefix: str | None
    writes: bool
    payload: str
    """What the signature says of the body: its digest, or that it is left open."""

    def require_within(self, *places: str) -> None:
        """Forbidden unless everything lies below these places, which end with a slash."""
        if not any(place.startswith(f"s3://{self.bucket}/") for place in places):
            raise Forbidden(f"the bucket '{self.bucket}' is not that of '{places[0]}'")
        for key in self.keys:
            if not f"s3://{self.bucket}/{key}".startswith(places):
                raise Forbidden(f"'s3://{self.bucket}/{key}' is no file of '{places[0]}'")
        if self.prefix is None:
            return
        listed = f"s3://{self.bucket}/{self.prefix}"
        # Clients list a table's folder without its slash too, which is safe where no other name begins with its own.
        is_folder = f"{listed}/" in places and is_id(self.prefix.rpartition("/")[2])
        if not is_folder and not listed.startswith(places):
            raise Forbidden(f"the prefix '{listed}' holds more than '{places[0]}'")


_READS: Final = frozenset({("GET", ()), ("GET", ("partNumber",)), ("HEAD", ())})
_WRITES: Final = frozenset(
    {
        ("PUT", ()),
        ("PUT", ("partNumber", "uploadId")),
        ("POST", ("uploads",)),
        ("POST", ("uploadId",)),
        ("DELETE", ()),
        ("DELETE", ("uploadId",)),
    }
)
_LISTING: Final = frozenset(
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
_HEADERS: Final = re.compile(
    r"x-amz-(content-sha256|date|checksum-[a-z0-9-]+|sdk-checksum-algorithm|meta-[\x21-\x7e]+|server-side-encryption[a-z-]*"
    r"|storage-class|tagging|te|trailer|decoded-content-length|expected-bucket-owner|user-agent|acl|copy-source)"
)
_OWN_ACLS: Final = frozenset(("private", "bucket-owner-full-control"))
_PAYLOAD: Final = re.compile(r"[0-9a-f]{64}|UNSIGNED-PAYLOAD|STREAMING-UNSIGNED-PAYLOAD-TRAILER")


def understand(account: S3Account, request: S3Request) -> Wish:
    """What the request would do; Forbidden if that is not known."""
    bucket, key = _object_of(account, request.uri)
    query = _query_of(request.uri)
    headers = _headers_of(request)
    payload = headers.get("x-amz-content-sha256", UNSIGNED_PAYLOAD)
    if not _PAYLOAD.fullmatch(payload):
        raise Forbidden(f"a body that is signed as {payload} cannot be signed here")
    if key:
        asked = request.method, tuple(sorted(query))
        if asked not in _READS | _WRITES:
            raise Forbidden(f"{request.method} with the parameters {sorted(query)} is not signed")
        keys = (key, *_copied(headers, bucket))
        return Wish(bucket, tuple(_checked(each) for each in keys), None, asked in _WRITES, payload)
    if request.method == "GET" and query.get("list-type") == "2" and query.keys() <= _LISTING:
        return Wish(bucket, (), query.get("prefix", ""), writes=False, payload=payload)
    if request.method == "POST" and query == {"delete": ""}:
        if request.body is None and not account.is_strict:  # the key will be one that cannot delete more
            return Wish(bucket, (), None, writes=True, payload=payload)
        digest, keys = _deleted(request.body)
        return Wish(bucket, tuple(_checked(each) for each in keys), None, writes=True, payload=digest)
    raise Forbidden(f"{request.method} on the bucket '{bucket}' is not signed")


def sign(key: S3Key, region: str, request: S3Request, wish: Wish, *, now_ms: int) -> dict[str, tuple[str, ...]]:
    """The headers with which the request is sent: its own, and those that prove it."""
    proof = {"x-amz-date": amz_date(now_ms), "x-amz-content-sha256": wish.payload}
    if key.token is not None:
        proof["x-amz-security-token"] = key.token
    # A Range, a user agent and the like may differ from what was asked: clients use a signature again for a while.
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
    """The bucket and the key that an address names, which may be in its path or in its host."""
    try:
        parts, host, own = urlsplit(uri), host_of(uri), host_of(account.endpoint)
    except ValueError:
        raise InvalidInput(f"uri: {uri!r} is not an address", field="uri") from None
    path = unquote(parts.path)
    if parts.scheme != urlsplit(account.endpoint).scheme or parts.fragment or "@" in parts.netloc:
        raise Forbidden(f"'{uri}' is not an address of the object store at {account.endpoint}")
    if host == own:
        bucket, _, key = path.removeprefix("/").partition("/")
    elif host.endswith(f".{own}"):
        bucket, key = host.removesuffix(f".{own}"), path.removeprefix("/")
    else:
        raise Forbidden(f"'{uri}' is not an address of the object store at {account.endpoint}")
    return bucket, key


def _query_of(uri: str) -> dict[str, str]:
    pairs = parse_qsl(urlsplit(uri).query, keep_blank_values=True)
    query = dict(pairs)
    if len(query) < len(pairs):
        raise Forbidden("a request with one parameter twice is not signed")
    query.pop("x-id", None)  # some clients repeat the name of the operation there, and nobody reads it
    return query


def _headers_of(request: S3Request) -> dict[str, str]:
    """By their names in small letters; none of them may give the request another meaning."""
    headers = {name.lower(): ",".join(values) for name, values in request.headers.items()}
    for name, value in headers.items():
        if name.startswith("x-amz-") and not _HEADERS.fullmatch(name):
            raise Forbidden(f"a request with the header {name} is not signed")
        if name == "x-amz-acl" and value not in _OWN_ACLS:
            raise Forbidden(f"an object is not opened to others: x-amz-acl is {value!r}")
    return headers


def _copied(headers: Mapping[str, str], bucket: str) -> tuple[str, ...]:
    """The key of the object that a request copies, which is read with our rights."""
    source = headers.get("x-amz-copy-source")
    if source is None:
        return ()
    found, _, key = unquote(source).removeprefix("/").partition("/")
    if found != bucket or "?" in source:
        raise Forbidden(f"'{source}' is not an object of the bucket '{bucket}'")
    return (key,)


def _deleted(body: str | None) -> tuple[str, tuple[str, ...]]:
    """The digest of a body that names objects to delete, and their keys: signed for another body it proves nothing."""
    if not body:
        raise InvalidInput("body: to delete many objects at once, send the body that names them", field="body")
    if "<!" in body:
        raise Forbidden("a body that declares its own entities is not signed")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - what makes it dangerous was refused above
    except ElementTree.ParseError:
        raise InvalidInput("body: it is not XML", field="body") from None
    keys = []
    for part in root:
        match _name(part), {_name(field): field.text or "" for field in part}:
            case "Quiet", {}:
                pass
            case "Object", {"Key": key, **others} if not others:
                keys.append(key)
            case name, fields:
                raise Forbidden(f"a request to delete <{name}> with {sorted(fields)} is not signed")
    return hashlib.sha256(body.encode()).hexdigest(), tuple(keys)


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _checked(key: str) -> str:
    try:
        return require_key(key)
    except InvalidInput as error:
        raise Forbidden(error.message) from None
