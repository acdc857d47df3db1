"""Marks: which version of an application's writes a Lance table has. Lance keeps no such thing, so the catalog does.

A mark is metadata of the version that the write made. The catalog records both in one entry of the ledger, so a write
that is repeated after a crash finds its mark and adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from lance_namespace import TableNotFoundError
from msgspec.structs import replace

from moorage.client.connection import Client
from moorage.client.errors import ClientError
from moorage.client.lance.lake import Lake
from moorage.client.lance.transaction import Transaction
from moorage.client.lance.versions import newest_first
from moorage.client.operations import LanceDeclare, LanceVersion
from moorage.core.errors import Advice

PREFIX: Final = "moorage.txn."
_TRIES: Final = 20


class Mark(NamedTuple):
    """The version of an application's write."""

    app_id: str
    version: int


def commit_with_mark(
    lake: Lake,
    table: Sequence[str],
    mark: Mark,
    write: Callable[[Transaction], None],
    *,
    token: str | None = None,
    storage: dict[str, str] | None = None,
) -> bool:
    """Commit a write together with its mark. Returns False if the table has the mark already."""
    with Client(lake.url, token=token) as client:
        for _ in range(_TRIES):
            if is_marked(lake, table, mark):
                return False
            transaction = lake.transaction(storage_options=storage)
            write(transaction)
            try:
                client.transact(_marked(transaction.hand_over(), mark))
            except ClientError as error:
                if error.advice is not Advice.AFTER_REFRESH:
                    raise
                continue
            return True
    raise ClientError(
        f"{list(table)} changed during each of {_TRIES} attempts to commit; try again",
        code="CONFLICT",
        advice=Advice.AFTER_REFRESH,
    )


def _marked(operations: list[LanceDeclare | LanceVersion], mark: Mark) -> list[LanceDeclare | LanceVersion]:
    """The writes with the mark on the last version that they make."""
    *others, last = operations
    if not isinstance(last, LanceVersion):
        raise ValueError("a write without a version cannot be marked")
    metadata = {**(last.metadata or {}), PREFIX + mark.app_id: str(mark.version)}
    return [*others, replace(last, metadata=metadata)]


def is_marked(lake: Lake, table: Sequence[str], mark: Mark) -> bool:
    """Whether the table has this write, or a later one of the same application."""
    name = PREFIX + mark.app_id
    try:
        for version in newest_first(lake, table):
            if (found := (version.metadata or {}).get(name)) is not None:
                return int(found) >= mark.version
    except TableNotFoundError:
        pass
    return False
