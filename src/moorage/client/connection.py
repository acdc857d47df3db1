"""The client: what can be asked of a server, room by room."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from moorage.client.answers import Health, Nothing, Transacted
from moorage.client.catalog import Catalogs, Dropped, Namespaces
from moorage.client.errors import ClientError
from moorage.client.feed import Feed
from moorage.client.jobs import JobQueue
from moorage.client.operations import Operation
from moorage.client.transport import API, PATIENCE_SECONDS, OnRetry, Transport


class Client:
    """Speaks to one server.

    What fails for a passing reason is tried again for `patience_s` seconds; `on_retry` hears of it.
    """

    def __init__(self, url: str, *, patience_s: float = PATIENCE_SECONDS, on_retry: OnRetry | None = None) -> None:
        self._transport = Transport(url, patience_s=patience_s, on_retry=on_retry)
        self.catalogs = Catalogs(self._transport)
        self.namespaces = Namespaces(self._transport)
        self.dropped = Dropped(self._transport)
        self.feed = Feed(self._transport)
        self.jobs = JobQueue(self._transport)

    def health(self) -> Health:
        return self._transport.read(f"{API}/health", Health)

    def is_ready(self) -> bool:
        """Whether the server answers requests now. Asks once."""
        try:
            self._transport.read("/readyz", Nothing, patience_s=0.0)
        except ClientError:
            return False
        return True

    def transact(self, operations: Sequence[Operation], *, key: str | None = None) -> Transacted:
        """All of them in one entry, or none."""
        body = {"operations": list(operations)}
        return self._transport.change("POST", f"{API}/transactions", Transacted, body=body, key=key)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
