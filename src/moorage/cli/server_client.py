"""A client for verbs: its errors become Failures."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from moorage.cli.failure import USAGE, Failure

if TYPE_CHECKING:
    from moorage.client import Client, ClientError
    from moorage.client.answers import Table


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


def run_verb(args: argparse.Namespace) -> int:
    """Let the function `act` of a verb do its work with a client."""
    with connected(args.url, token=args.token) as client:
        return int(args.act(client, args))


def table_named(client: Client, name: str) -> Table:
    """The table with a full name: catalog, namespaces and table, separated by dots."""
    return client.namespaces.table(*table_path(name))


def table_path(name: str) -> tuple[str, tuple[str, ...], str]:
    """The catalog, the path of the namespace and the table of a full name."""
    catalog, *path = name.split(".")
    if len(path) < 2 or not all((catalog, *path)):
        raise Failure(f"expected CATALOG.NAMESPACE.TABLE, not {name!r}", code=USAGE)
    return catalog, tuple(path[:-1]), path[-1]
