"""The client of a server, with one attribute per part of the API."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from moorage.client.access import Access
from moorage.client.answers import Health, Lease, Nothing, TransactionResult
from moorage.client.audit import Audit
from moorage.client.catalog import Catalogs, Dropped, Namespaces
from moorage.client.errors import ClientError
from moorage.client.feed import Feed
from moorage.client.jobs import JobQueue
from moorage.client.lineage import LineageRecords
from moorage.client.operations import Operation
from moorage.client.pipelines import Pipelines
from moorage.client.rewrites import Rewrites
from moorage.client.sharing import Recipients, Shares
from moorage.client.storage import ExternalLocations, StorageCredentials
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
        self._use(Transport(url, patience_s=patience_s, on_retry=on_retry, token=token))

    def for_job(self, lease: Lease) -> Client:
        """The same client for the program of a job. The server refuses its changes once the lease is lost.

        If the server authenticates, it uses the token of the job, which opens only the table of the job.

        It shares the connections of this client, so only this client is closed.
        """
        other = object.__new__(Client)
        headers = {"moorage-job": f"{lease.job.id};fence={lease.fence}"}
        if lease.token is not None:
            headers["authorization"] = f"Bearer {lease.token}"
        other._use(self._transport.with_headers(headers))
        return other

    def _use(self, transport: Transport) -> None:
        self._transport = transport
        self.access = Access(self._transport)
        self.audit = Audit(self._transport)
        self.catalogs = Catalogs(self._transport)
        self.namespaces = Namespaces(self._transport)
        self.dropped = Dropped(self._transport)
        self.feed = Feed(self._transport)
        self.jobs = JobQueue(self._transport)
        self.lineage = LineageRecords(self._transport)
        self.rewrites = Rewrites(self._transport)
        self.pipelines = Pipelines(self._transport)
        self.shares = Shares(self._transport)
        self.storage_credentials = StorageCredentials(self._transport)
        self.external_locations = ExternalLocations(self._transport)
        self.recipients = Recipients(self._transport)

    @property
    def url(self) -> str:
        return self._transport.url

    @property
    def headers(self) -> dict[str, str]:
        """The headers with which another client can act for this one: its token, and the job that it acts for."""
        return self._transport.headers

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
