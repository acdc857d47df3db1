"""A client for verbs: its errors become Failures."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moorage.cli.failure import Failure

if TYPE_CHECKING:
    from moorage.client import Client, ClientError


@contextlib.contextmanager
def connected(url: str, *, patience_s: float = 5.0) -> Iterator[Client]:
    from moorage.client import Client, ClientError

    reported = False

    def on_retry(error: ClientError) -> None:
        nonlocal reported
        if not reported:
            print(f"moorage: {error}; retrying", file=sys.stderr)
        reported = True

    try:
        with Client(url, patience_s=patience_s, on_retry=on_retry) as client:
            yield client
    except ClientError as error:
        hint = "; check --url" if error.code == "ROUTE_NOT_FOUND" else ""
        raise Failure(error.message + hint) from error
