"""Changes of rows by Delta's own statements: run one on a shadow of the table, and offer the result to the server.

A kill at any moment leaves the table as it was, or with the whole change. What it leaves in the table's folder, a later
compaction removes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from moorage.client.delta.keys import spark_keys
from moorage.client.delta.tables import Transaction, table_path
from moorage.client.errors import ClientError
from moorage.client.transport import Transport
from moorage.core.errors import Advice
from moorage.core.rewrites import OfferOutcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TRIES: Final = 20
"""Attempts to change rows while other writers change them. Each round has a winner."""


class ShadowTable(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A plain Delta table in the folder of a managed one."""

    table_id: str
    folder: str
    location: str
    """Absolute, as Hadoop prints it."""
    base_version: int
    files: int
    last_transaction: int | None


class Offered(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What became of an offer."""

    outcome: OfferOutcome
    version: int | None
    reason: str | None


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """What a statement did to a table."""

    version: int | None
    """The new version of the table; None if no row was changed, or the transaction was committed before."""
    attempts: int = 1


class Shadows:
    """The shadows of the tables of one server."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, name: str, *, with_files: bool = True, app_id: str | None = None) -> ShadowTable:
        """A new shadow of a table, with all its files or, for an append, without any."""
        body = {"with-files": with_files, "app-id": app_id}
        return self._transport.note(f"{table_path(name)}/shadows", ShadowTable, body=body)

    def offer(self, name: str, shadow: ShadowTable, transaction: Transaction | None = None) -> Offered:
        """Commit what one statement did to a shadow."""
        body: dict[str, Any] = {"folder": shadow.folder, "base-version": shadow.base_version}
        if transaction is not None:
            body["transaction"] = {"app-id": transaction.app_id, "version": transaction.version}
        return self._transport.change("POST", f"{table_path(name)}/offers", Offered, body=body)

    def keys(self, spark: SparkSession, shadow: ShadowTable) -> AbstractContextManager[None]:
        """Let Spark reach the files of a shadow and of its table, while the context is open."""
        return spark_keys(spark, self._transport, shadow.table_id, shadow.location)

    def discard(self, name: str, shadow: ShadowTable) -> None:
        body = {"folder": shadow.folder, "base-version": shadow.base_version, "discard": True}
        self._transport.change("POST", f"{table_path(name)}/offers", Offered, body=body)

    def change(
        self,
        name: str,
        run: Callable[[ShadowTable], None],
        *,
        with_files: bool = True,
        transaction: Transaction | None = None,
    ) -> Changed:
        """Change a table by what `run` does to a shadow of it. After a conflict it runs again, on a new shadow."""
        app_id = None if transaction is None else transaction.app_id
        reason: str | None = None
        for attempt in range(1, TRIES + 1):
            shadow = self.create(name, with_files=with_files, app_id=app_id)
            last = shadow.last_transaction
            if transaction is not None and last is not None and last >= transaction.version:
                self.discard(name, shadow)
                return Changed(version=None, attempts=attempt)
            try:
                run(shadow)
            except BaseException:
                with contextlib.suppress(ClientError):
                    self.discard(name, shadow)
                raise
            found = self.offer(name, shadow, transaction)
            if found.outcome is not OfferOutcome.DROPPED:
                return Changed(version=found.version, attempts=attempt)
            reason = found.reason
        raise ClientError(
            f"'{name}' changed during each of {TRIES} attempts to change its rows, the last time because {reason}; "
            "try again",
            code="CONFLICT",
            advice=Advice.AFTER_REFRESH,
        )
