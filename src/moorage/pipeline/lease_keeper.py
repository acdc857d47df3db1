"""Renews a lease, and detects when it is lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from moorage.client import Client, ClientError
from moorage.client.answers import Lease
from moorage.core.jobs import LEASE_MS

log = logging.getLogger(__name__)

RENEWAL_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 2.0
_PROGRESS_SECONDS: Final = 1.0
"""How long new progress waits for the next renewal, so that a watcher sees it move."""


class LostLease(Exception):
    """The lease is lost. Another worker may have the job, so this worker must discard its result."""


class LeaseKeeper:
    """Renews a lease in its own thread while the job's program runs in another.

    The lease is lost if the server refuses to renew it, or if it expires without a successful renewal. A worker
    that was disconnected or suspended must not continue after that.
    """

    def __init__(
        self,
        client: Client,
        lease: Lease,
        *,
        since: float,
        renewal_s: float = RENEWAL_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`since`: when the lease was requested. It began later, so it is valid until at least 60 s after `since`."""
        self._client = client
        self._lease = lease
        self._beat_s = renewal_s
        self._monotonic = monotonic
        self._valid_until = since + LEASE_MS / 1000
        self._refused = False
        self._progress: dict[str, Any] | None = None
        self._sent: dict[str, Any] | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease-{lease.job.id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def is_lost(self) -> bool:
        return self._refused or self._monotonic() >= self._valid_until

    def require(self) -> None:
        """Raise LostLease if the lease is lost."""
        if self.is_lost:
            raise LostLease(self._lease.job.id)

    def tell(self, progress: dict[str, Any]) -> None:
        """Set the progress that the next renewal sends. A change is sent within about a second."""
        self._progress = progress

    def send(self, progress: dict[str, Any]) -> None:
        """Send the last progress of an attempt now, if it is new. A failure does not matter: it is not a fact."""
        self.tell(progress)
        if progress and progress != self._sent and not self.is_lost:
            self._beat()

    def _keep(self) -> None:
        pause_s = self._beat_s
        while not self._is_done_within(pause_s) and not self.is_lost:
            pause_s = self._beat_s if self._beat() else min(_RETRY_SECONDS, self._beat_s)

    def _is_done_within(self, pause_s: float) -> bool:
        """Wait for the next renewal, which new progress advances."""
        ends = time.monotonic() + pause_s
        while (left := ends - time.monotonic()) > 0:
            if self._done.wait(min(left, _PROGRESS_SECONDS)):
                return True
            if self._progress != self._sent:
                return False
        return self._done.is_set()

    def _beat(self) -> bool:
        requested_at, progress = self._monotonic(), self._progress
        try:
            self._client.jobs.renew(self._lease.job.id, self._lease.fence, progress)
        except ClientError as error:
            self._refused = not error.is_transient
            log.warning("the lease of job %s was not renewed: %s", self._lease.job.id, error)
            return False
        self._valid_until, self._sent = requested_at + LEASE_MS / 1000, progress
        return True
