"""Job tokens: what a worker presents while it works on one job. They open only the table of that job.

They are signed and not stored. Each use reads the job, so a token ends with its job. It names the principal that took
the job and the token that it presented, which must still be allowed to run jobs, and the fence of its lease, which
every change is checked against.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from moorage.core.ids import Fence, JobId, SecurableId

_SEPARATOR = "\0"
"""No name contains it."""
_FORM = re.compile(r"moor_([0-9a-f]{32})_j([0-9A-Za-z-]{1,64})\.([A-Za-z0-9_-]+)_[A-Za-z0-9_-]{43}")


class JobToken(NamedTuple):
    """A job token with a valid signature."""

    job: JobId
    fence: Fence
    principal: str
    """The name of the principal that took the job."""
    made_from: SecurableId | None = None
    """The token by which it took the job; None if an identity provider authenticated it."""


def job_token_key(secret: bytes) -> bytes:
    """The signing key, from a secret that all servers of a ledger share. It differs from the secret's other uses."""
    return hmac.digest(secret, b"moorage job tokens", hashlib.sha256)


def new_job_token(key: bytes, token: JobToken) -> str:
    taker = f"{token.principal}{_SEPARATOR}{token.made_from or ''}"
    encoded = urlsafe_b64encode(taker.encode()).decode().rstrip("=")
    return _signed(key, f"moor_{token.job.replace('-', '')}_j{token.fence}.{encoded}")


def parse_job_token(key: bytes, text: str) -> JobToken | None:
    """The token, or None if the text is not a job token that was signed with this key."""
    found = _FORM.fullmatch(text)
    if found is None or not hmac.compare_digest(_signed(key, text[: found.end(3)]), text):
        return None
    digits, encoded = found[1], found[3]
    job = f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    taker = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    principal, _, made_from = taker.partition(_SEPARATOR)
    return JobToken(JobId(job), Fence(found[2]), principal, SecurableId(made_from) if made_from else None)


def _signed(key: bytes, text: str) -> str:
    signature = urlsafe_b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode().rstrip("=")
    return f"{text}_{signature}"
