"""The client of a server, with one attribute per part of the API."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from moorage.client.answers import Health, Nothing, TransactionResult
from moorage.client.catalog import Catalogs, Dropped, Namespaces
from moorage.client.errors import ClientError
from moorage.client.feed import Feed
from moorage.client.jobs import JobQueue
from moorage.client.operations import Operation
from moorage.client.transport import API, PATIENCE_SECONDS, OnRetry, Transport


class Client:
    """A client of one server.

    `token` authenticates it, if the server requires that. A request that fails for a transient reason is retried for
    up to `patience_s` seconds. `on_retry` is called before each retry.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        patience_s: float = PATIENCE_SECONDS,
        on_retry: OnRetry | None = None,
    ) -> None:
        self._transport = Transport(url, token=token, patience_s=patience_s, on_retry=on_retry)
        self.catalogs = Catalogs(self._transport)
        self.namespaces = Namespaces(self._transport)
        self.dropped = Dropped(self._transport)
        self.feed = Feed(self._transport)
        self.jobs = JobQueue(self._transport)

    def health(self) -> Health:
        return self._transport.read(f"{API}/health", Health)

    def is_ready(self) -> bool:
        """Whether the server can serve requests now. Does not retry."""
        try:
            self._transport.read("/readyz", Nothing, patience_s=0.0)
        except ClientError:
            return False
        return True

    def transact(self, operations: Sequence[Operation], *, key: str | None = None) -> TransactionResult:
        """Carry out all operations in one entry of the ledger, or none of them."""
        body = {"operations": list(operations)}
        return self._transport.change("POST", f"{API}/transactions", TransactionResult, body=body, key=key)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
