"""Keys that open the places of one table and nothing else, borrowed from the STS of an object store.

A signature restricts a request only where the store sees to it. Amazon's refuses headers that were not signed and
bodies that are not the signed ones. MinIO does not: with a signature to write one file a client can copy any other
into it, by a header that it adds. So there requests are signed with a key that cannot do more than the table needs.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import time
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode
from xml.etree import ElementTree

from moorage.core.errors import MoorageError, Unavailable, Unsupported
from moorage.storage.s3_account import S3Account, S3Key, bucket_and_key
from moorage.storage.sigv4 import amz_date, authorization, host_of

log = logging.getLogger(__name__)

_LIFE_SECONDS: Final = 3600
_PATIENCE_SECONDS: Final = 10
_FIRST_PAUSE_SECONDS: Final = 1.0
_LONGEST_PAUSE_SECONDS: Final = 300.0
_MOST_KEPT: Final = 10_000
_READING: Final = ("s3:GetObject",)
_WRITING: Final = (*_READING, "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
_PATTERN: Final = re.compile(r"[*?$]")
"""What policies take for patterns."""
_FORM: Final = "application/x-www-form-urlencoded"


class S3Sessions:
    """Sessions are kept for half of their life, one to read and one to write each set of places."""

    def __init__(self, account: S3Account, clock: Callable[[], float] = time.monotonic) -> None:
        self._account = account
        self._clock = clock
        self._kept: dict[tuple[tuple[str, ...], bool], tuple[S3Key, float]] = {}
        self._asking = asyncio.Lock()
        self._is_proven = account.is_strict
        self._ask_again_at = 0.0
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    async def are_given(self) -> bool:
        """Whether the store has ever given a key that opens one place only.

        One that has not may only have been away: it is asked again when somebody wants to know, but ever less often,
        and only for one of those who do at the same time.
        """
        now = self._clock()
        if not self._is_proven and now >= self._ask_again_at:
            self._ask_again_at = now + self._pause_seconds
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
            try:
                await self.key_to(self._account.places[0], writes=False)
            except MoorageError as error:
                log.warning("requests to %s are not signed for clients: %s", self._account.endpoint, error.message)
        return self._is_proven

    async def key_to(self, *places: str, writes: bool) -> S3Key:
        """The key with which requests for these places are signed; Unavailable if the store gives none."""
        if self._account.is_strict:
            return self._account.key
        return self._fresh(places, writes=writes) or await self._ask(places, writes=writes)

    def _fresh(self, places: tuple[str, ...], *, writes: bool) -> S3Key | None:
        key, until = self._kept.get((places, writes), (None, 0.0))
        return key if until > self._clock() else None

    async def _ask(self, places: tuple[str, ...], *, writes: bool) -> S3Key:
        async with self._asking:  # whoever waited here may find what another got
            found = self._fresh(places, writes=writes)
            if found is None:
                found = await _assume_role(self._account, policy_of(*places, writes=writes))
                self._is_proven = True
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.clear()
                self._kept[places, writes] = found, self._clock() + _LIFE_SECONDS / 2
            return found


def policy_of(*places: str, writes: bool) -> str:
    """What a session may do: read the objects below places and list them, or write them too."""
    statements = [statement for place in places for statement in _statements(place, writes=writes)]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, separators=(",", ":"))


def _statements(place: str, *, writes: bool) -> tuple[dict[str, Any], ...]:
    if _PATTERN.search(place):
        raise Unsupported(f"'{place}' has characters that mean something else in policies; requests are not signed")
    bucket, key = bucket_and_key(place)
    objects = {
        "Effect": "Allow",
        "Action": _WRITING if writes else _READING,
        "Resource": [f"arn:aws:s3:::{bucket}/{key}*"],
    }
    listing = {
        "Effect": "Allow",
        "Action": ["s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{bucket}"],
        "Condition": {"StringLike": {"s3:prefix": [f"{key}*", key.removesuffix("/")]}},
    }
    return objects, listing


async def _assume_role(account: S3Account, policy: str) -> S3Key:
    import httpx

    asked = {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "DurationSeconds": str(_LIFE_SECONDS),
        "RoleArn": "arn:aws:iam::000000000000:role/moorage",  # asked for, and not looked at, outside of Amazon
        "RoleSessionName": "moorage",
        "Policy": policy,
    }
    form, uri = urlencode(asked).encode(), f"{account.endpoint}/"
    headers = {
        "host": host_of(uri),
        "content-type": _FORM,
        "x-amz-date": amz_date(time.time_ns() // 1_000_000),
        "x-amz-content-sha256": hashlib.sha256(form).hexdigest(),
    }
    proof = authorization("POST", uri, headers, key=account.key, region=account.region, service="sts")
    try:
        async with httpx.AsyncClient(timeout=_PATIENCE_SECONDS) as http:
            answer = await http.post(uri, content=form, headers={**headers, "authorization": proof})
    except httpx.HTTPError as error:
        raise Unavailable(f"the object store gives no session: {str(error) or type(error).__name__}") from error
    found = _parse_session(answer.text) if answer.status_code == 200 else None
    if found is None:
        raise Unavailable(f"the object store gives no session: it answered {answer.status_code}")
    return found


def _parse_session(text: str) -> S3Key | None:
    try:
        root = ElementTree.fromstring(text)  # noqa: S314 - from the store that we trust with all our files
    except ElementTree.ParseError:
        return None
    said = {each.tag.rpartition("}")[2]: each.text for each in root.iter()}
    id, secret, token = (said.get(name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"))
    return S3Key(access_key_id=id, secret_access_key=secret, token=token) if id and secret and token else None
