"""A client for a verb: its errors become the verb's own."""

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

    told = False

    def on_retry(error: ClientError) -> None:
        nonlocal told
        if not told:
            print(f"moorage: {error}; trying again", file=sys.stderr)
        told = True

    try:
        with Client(url, patience_s=patience_s, on_retry=on_retry) as client:
            yield client
    except ClientError as error:
        what_to_do = "; check --url" if error.code == "ROUTE_NOT_FOUND" else ""
        raise Failure(error.message + what_to_do) from error
