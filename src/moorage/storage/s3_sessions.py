"""Temporary keys from an object store's STS, each restricted to the locations of one table.

A signature restricts a request only if the store enforces it. Amazon S3 refuses headers that were not signed, and
bodies other than the signed one. MinIO accepts them: a client with a signature for writing one file can add a header
that copies any other file into it. So requests to such a store are signed with a key that has only the permissions
that the table needs.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode
from xml.etree import ElementTree

from moorage.core.errors import MoorageError, Unavailable, Unsupported
from moorage.core.ids import is_id
from moorage.storage.s3_account import S3Account, S3Key, bucket_and_key
from moorage.storage.sigv4 import amz_date, authorization, host_of

log = logging.getLogger(__name__)

_SESSION_SECONDS: Final = 3600
_TIMEOUT_SECONDS: Final = 10
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 300.0
_MOST_CACHED: Final = 10_000
_READ_ACTIONS: Final = ("s3:GetObject",)
_WRITE_ACTIONS: Final = (*_READ_ACTIONS, "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
_ARN: Final = "arn:aws:s3:::"
_PATTERN_CHARACTERS: Final = re.compile(r"[*?$]")
"""Characters that have a special meaning in policies."""
_ANY_ROLE: Final = "arn:aws:iam::000000000000:role/moorage"
"""Requests must name a role. Stores other than Amazon's ignore it and restrict the key that signed the request."""
_FORM: Final = "application/x-www-form-urlencoded"


class S3Session(NamedTuple):
    """A restricted key and when it expires."""

    key: S3Key
    expires_at_ms: int


_Opened = tuple[tuple[str, ...], bool]
"""The locations that a session opens, and whether for writing. No locations: all that the role opens."""


class S3Sessions:
    """Caches keys for half of their lifetime: one for reading and one for writing, per set of locations."""

    def __init__(self, account: S3Account, clock: Callable[[], float] = time.monotonic) -> None:
        self._account = account
        self._clock = clock
        self._cached: dict[_Opened, tuple[S3Session, float]] = {}
        self._locks: dict[_Opened, asyncio.Lock] = {}
        self._has_issued_key = account.is_strict and account.role_arn is None
        self._next_attempt_at = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    async def are_available(self) -> bool:
        """Whether the store has ever issued a restricted key.

        If it has not, it may only have been unreachable. A call then asks the store again, with exponential backoff;
        of several concurrent calls only one does.
        """
        now = self._clock()
        if not self._has_issued_key and now >= self._next_attempt_at:
            self._next_attempt_at = now + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
            try:
                await self.key_for(self._account.locations[0], writes=False)
            except MoorageError as error:
                log.warning("cannot sign requests to %s for clients: %s", self._account.endpoint, error.message)
        return self._has_issued_key

    async def key_for(self, *locations: str, writes: bool) -> S3Key:
        """Return the key that signs requests for these locations. Raises Unavailable if the store issues none."""
        if self._account.is_strict and self._account.role_arn is None:
            return self._account.key
        return (await self.session_for(*locations, writes=writes)).key

    async def own_session(self) -> S3Session:
        """Return a session of the account's role with all its rights: for the server itself, never for clients."""
        return self._cached_session((), writes=True) or await self._request_session((), writes=True)

    async def session_for(self, *locations: str, writes: bool) -> S3Session:
        """Return a key that opens these locations and nothing else, for at least half of its lifetime from now.

        Raises Unavailable if the store issues none.
        """
        if not locations:
            raise ValueError("a session without locations would open all that the account opens")
        return self._cached_session(locations, writes=writes) or await self._request_session(locations, writes=writes)

    def _cached_session(self, locations: tuple[str, ...], *, writes: bool) -> S3Session | None:
        session, until = self._cached.get((locations, writes), (None, 0.0))
        return session if until > self._clock() else None

    async def _request_session(self, locations: tuple[str, ...], *, writes: bool) -> S3Session:
        opened = (locations, writes)
        lock = self._locks.setdefault(opened, asyncio.Lock())
        try:
            async with lock:  # a caller that waited here may find the session that another caller got
                found = self._cached_session(locations, writes=writes)
                if found is None:
                    policy = policy_of(*locations, writes=writes) if locations else None
                    found = await _assume_role(self._account, policy)
                    self._has_issued_key = True
                    if len(self._cached) >= _MOST_CACHED:
                        self._cached.clear()
                    self._cached[opened] = found, self._clock() + _SESSION_SECONDS / 2
                return found
        finally:
            if not lock.locked():
                self._locks.pop(opened, None)


def policy_of(*locations: str, writes: bool) -> str:
    """Return a session policy that allows listing and reading the objects below locations, or also writing them.

    Locations share statements, because Amazon accepts a policy of at most 2,048 characters.
    """
    keys: dict[str, list[str]] = {}
    for location in locations:
        _require_no_pattern(location)
        bucket, key = bucket_and_key(location)
        keys.setdefault(bucket, []).append(key)
    below = [f"{_ARN}{bucket}/{key}*" for bucket, each in keys.items() for key in each]
    # Hadoop's file system first looks for an object with the name of the folder, and ends if that is forbidden.
    folders = [f"{_ARN}{bucket}/{key.removesuffix('/')}" for bucket, each in keys.items() for key in each]
    statements = [
        {"Effect": "Allow", "Action": _WRITE_ACTIONS if writes else _READ_ACTIONS, "Resource": below},
        {"Effect": "Allow", "Action": _READ_ACTIONS, "Resource": folders},
        *(_listing(bucket, each) for bucket, each in keys.items()),
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _require_no_pattern(location: str) -> None:
    if _PATTERN_CHARACTERS.search(location):
        raise Unsupported(
            f"cannot sign requests for '{location}': *, ? and $ have a special meaning in policies; "
            "use a location without them"
        )


def _listing(bucket: str, keys: list[str]) -> dict[str, Any]:
    prefixes = [f"{key}*" for key in keys]
    # Some clients list a folder without the slash at its end. The prefix t1 also lists t10, an id lists only itself.
    prefixes += [folder for key in keys if is_id((folder := key.removesuffix("/")).rpartition("/")[2])]
    return {
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": [f"{_ARN}{bucket}"],
        "Condition": {"StringLike": {"s3:prefix": prefixes}},
    }


async def _assume_role(account: S3Account, policy: str | None) -> S3Session:
    import httpx

    parameters = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "DurationSeconds": str(_SESSION_SECONDS),
        "RoleArn": account.role_arn or _ANY_ROLE,
        "RoleSessionName": "moorage",
    }
    if policy is not None:
        parameters["Policy"] = policy
    if account.external_id is not None:
        parameters["ExternalId"] = account.external_id
    form, uri = urlencode(parameters).encode(), f"{account.sts_endpoint or account.endpoint}/"
    headers = {
        "host": host_of(uri),
        "content-type": _FORM,
        "x-amz-date": amz_date(time.time_ns() // 1_000_000),
        "x-amz-content-sha256": hashlib.sha256(form).hexdigest(),
    }
    proof = authorization("POST", uri, headers, key=account.key, region=account.region, service="sts")
    try:
        async with httpx.AsyncClient(timeout=_TIMEOUT_SECONDS) as http:
            answer = await http.post(uri, content=form, headers={**headers, "authorization": proof})
    except httpx.HTTPError as error:
        raise Unavailable(f"the object store issued no session: {str(error) or type(error).__name__}") from error
    found = _parse_session(answer.text) if answer.status_code == 200 else None
    if found is None:
        raise Unavailable(f"the object store issued no session: it returned status {answer.status_code}")
    return found


def _parse_session(text: str) -> S3Session | None:
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - the store is trusted with all files anyway
    except ElementTree.ParseError:
        return None
    fields = {each.tag.rpartition("}")[2]: each.text for each in root.iter()}
    id, secret, token = (fields.get(name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    try:
        expires = datetime.fromisoformat(fields.get("Expiration") or "")
    except ValueError:
        return None
    if not (id and secret and token):
        return None
    return S3Session(S3Key(access_key_id=id, secret_access_key=secret, token=token), int(expires.timestamp() * 1000))
