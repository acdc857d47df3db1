"""The worker: takes a job, runs its program and reports the outcome. It uses HTTP only."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from moorage.client import Client, ClientError
from moorage.client.answers import Lease
from moorage.faults import reach
from moorage.pipeline.job_record import JobRecord
from moorage.pipeline.lease_keeper import RENEWAL_SECONDS, LeaseKeeper, LostLease
from moorage.pipeline.program import Failure, PermanentFailure, Postponed, Program
from moorage.pipeline.programs import PROGRAMS

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 2.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 15.0
_FAILURES_BEFORE_WARNING: Final = 4


class Stopped(Exception):
    """The worker is stopping."""


class Worker:
    """Runs jobs until `stop` is set. The current job is then returned to the queue for another worker."""

    def __init__(
        self,
        client: Client,
        stop: threading.Event,
        *,
        programs: Mapping[str, Program] = PROGRAMS,
        name: str = "",
        renewal_s: float = RENEWAL_SECONDS,
    ) -> None:
        self._client = client
        self._stop = stop
        self._programs = programs
        self._beat_s = renewal_s
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"

    def run(self, *, once: bool = False) -> None:
        """Take and run jobs. With `once`, return as soon as no job is due."""
        failures = 0
        while not self._stop.is_set():
            requested_at = time.monotonic()
            try:
                wait_s = 0.0 if once else _IDLE_SECONDS
                lease = self._client.jobs.take(self._name, list(self._programs), wait_s=wait_s)
            except ClientError as error:
                if once or not error.is_transient:
                    raise
                failures += 1
                # A restart of the server is normal, so log only a longer outage, and only once.
                if failures == _FAILURES_BEFORE_WARNING:
                    log.warning("cannot take jobs, still retrying: %s", error)
                self._stop.wait(_pause_s(failures))
                continue
            failures = 0
            if lease is not None:
                self._work(lease, requested_at)
            elif once:
                return
            else:
                # The server has waited already, unless it is older than this worker.
                self._stop.wait(max(0.0, requested_at + _IDLE_SECONDS - time.monotonic()))

    def _work(self, lease: Lease, since: float) -> None:
        with LeaseKeeper(self._client, lease, since=since, renewal_s=self._beat_s) as keeper:
            record = JobRecord(lease.job, self._name)
            reach("worker.taken")
            try:
                self._report(lease, keeper, record, self._outcome(lease, keeper, record))
            except LostLease:
                log.warning("the lease of job %s is lost; its result is discarded", lease.job.id)
            except ClientError as error:
                # The lease expires, and another worker takes the job.
                log.warning("the outcome of job %s could not be reported: %s", lease.job.id, error)

    def _outcome(self, lease: Lease, keeper: LeaseKeeper, record: JobRecord) -> dict[str, Any] | Exception:
        """The result of the program, or the exception that it raised."""

        def progress(state: dict[str, Any]) -> None:
            keeper.tell(record.update(state))
            keeper.require()
            if self._stop.is_set():
                raise Stopped("the worker was stopped")

        try:
            return self._programs[lease.job.kind](lease.job, self._client.for_job(lease), progress)
        except LostLease:
            raise
        except Exception as error:  # noqa: BLE001 - a failed program fails its job, not the worker
            if not isinstance(error, Stopped | Postponed):
                log.warning("job %s failed: %s", lease.job.id, error)
            return error

    def _report(
        self, lease: Lease, keeper: LeaseKeeper, record: JobRecord, outcome: dict[str, Any] | Exception
    ) -> None:
        if isinstance(outcome, Postponed):
            record.add_line(str(outcome))
        elif isinstance(outcome, Exception):
            record.add_line(f"failed: {_error_text(outcome)}")
        keeper.send(record.document())
        keeper.require()
        if isinstance(outcome, Postponed):
            self._client.jobs.postpone(lease.job.id, lease.fence, outcome.until_ms, str(outcome))
        elif isinstance(outcome, Exception):
            final = isinstance(outcome, PermanentFailure)
            self._client.jobs.fail(lease.job.id, lease.fence, _error_text(outcome), final=final)
        else:
            reach("worker.done")
            self._client.jobs.succeed(lease.job.id, lease.fence, outcome)
            reach("worker.reported")


def _pause_s(failures: int) -> float:
    """Exponential backoff with jitter, so that not all workers retry together when the server is back."""
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def _error_text(error: Exception) -> str:
    is_clear = isinstance(error, Failure | Stopped | ClientError)
    text = str(error) if is_clear else f"{type(error).__name__}: {error}"
    # The stack of a Java error has thousands of lines, and its first line says what is wrong.
    return text.partition("\n\tat ")[0][:10_000]
