"""AWS Signature Version 4 for requests to S3 and STS: a pure function of request, key and time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from moorage.storage.s3_account import S3Key

ALGORITHM = "AWS4-HMAC-SHA256"
UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
_UNRESERVED = "-_.~"


def authorization(
    method: str, uri: str, headers: Mapping[str, str], *, key: S3Key, region: str, service: str = "s3"
) -> str:
    """Return the Authorization header of a request.

    `headers` are the signed headers, with lower-case names: host, x-amz-date, x-amz-content-sha256, and all others
    that may not change on the way to the store.
    """
    time = headers["x-amz-date"]
    scope = f"{time[:8]}/{region}/{service}/aws4_request"
    names = ";".join(sorted(headers))
    digest = hashlib.sha256(_canonical(method, uri, headers, names).encode()).hexdigest()
    signing_key = _key_of(key.secret_access_key, scope)
    signature = hmac.digest(signing_key, f"{ALGORITHM}\n{time}\n{scope}\n{digest}".encode(), "sha256").hex()
    return f"{ALGORITHM} Credential={key.access_key_id}/{scope}, SignedHeaders={names}, Signature={signature}"


@lru_cache(maxsize=8)
def _key_of(secret: str, scope: str) -> bytes:
    """Return the signing key of one day, region and service."""
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def amz_date(at_ms: int) -> str:
    """Format a time for x-amz-date."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def host_of(uri: str) -> str:
    """Return the Host header that clients send for a URL: without the scheme's default port."""
    parts = urlsplit(uri)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return host if parts.port in (None, default) else f"{host}:{parts.port}"


def _canonical(method: str, uri: str, headers: Mapping[str, str], names: str) -> str:
    """Return the canonical form of a request, which does not depend on how the client encoded it."""
    parts = urlsplit(uri)
    query = sorted((_encoded(name), _encoded(value)) for name, value in parse_qsl(parts.query, keep_blank_values=True))
    return "\n".join(
        (
            method,
            quote(unquote(parts.path), safe=f"/{_UNRESERVED}") or "/",
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
            "",
            names,
            headers["x-amz-content-sha256"],
        )
    )


def _encoded(text: str) -> str:
    return quote(text, safe=_UNRESERVED)
