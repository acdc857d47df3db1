"""A client for verbs: its errors become Failures."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moorage.cli.failure import Failure

if TYPE_CHECKING:
    from moorage.client import Client, ClientError


_HINTS = {"ROUTE_NOT_FOUND": "; check --url", "UNAUTHENTICATED": "; set MOORAGE_TOKEN or --token"}


@contextlib.contextmanager
def connected(url: str, *, token: str | None = None, patience_s: float = 5.0) -> Iterator[Client]:
    from moorage.client import Client, ClientError

    reported = False

    def on_retry(error: ClientError) -> None:
        nonlocal reported
        if not reported:
            print(f"moorage: {error}; retrying", file=sys.stderr)
        reported = True

    try:
        with Client(url, token=token, patience_s=patience_s, on_retry=on_retry) as client:
            yield client
    except ClientError as error:
        hint = _HINTS.get(error.code, "")
        raise Failure(error.message + hint) from error
