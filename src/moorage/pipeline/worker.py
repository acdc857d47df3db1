"""The worker: take a job, run its program, report. Speaks HTTP only."""

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
from moorage.pipeline.lease_keeper import BEAT_SECONDS, LeaseGone, LeaseKeeper
from moorage.pipeline.programs import PROGRAMS, Hopeless, Program

log = logging.getLogger(__name__)

_IDLE_SECONDS: Final = 2.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 15.0
_FAILURES_WORTH_TELLING: Final = 4


class Stopped(Exception):
    """The worker was told to stop."""


class Worker:
    """Works until `stop` is set. What it was doing then is given back for another worker."""

    def __init__(
        self,
        client: Client,
        stop: threading.Event,
        *,
        programs: Mapping[str, Program] = PROGRAMS,
        name: str = "",
        beat_s: float = BEAT_SECONDS,
    ) -> None:
        self._client = client
        self._stop = stop
        self._programs = programs
        self._beat_s = beat_s
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"

    def run(self, *, once: bool = False) -> None:
        """Take jobs as they come; with `once`, only until none is due."""
        failures = 0
        while not self._stop.is_set():
            asked_at = time.monotonic()
            try:
                lease = self._client.jobs.take(self._name, list(self._programs))
            except ClientError as error:
                if once or not error.is_passing:
                    raise
                failures += 1
                # A server that restarts is no news, one that stays away is: told once, not at every try.
                if failures == _FAILURES_WORTH_TELLING:
                    log.warning("no jobs to be had for a while: %s", error)
                self._stop.wait(_pause_s(failures))
                continue
            failures = 0
            if lease is not None:
                self._work(lease, asked_at)
            elif once:
                return
            else:
                self._stop.wait(_IDLE_SECONDS)

    def _work(self, lease: Lease, since: float) -> None:
        with LeaseKeeper(self._client, lease, since=since, beat_s=self._beat_s) as keeper:
            try:
                self._report(lease, keeper, self._outcome(lease, keeper))
            except LeaseGone:
                log.warning("job %s was lost; what was done for it does not count", lease.job.id)
            except ClientError as error:
                # The lease runs out by itself and somebody takes the job again.
                log.warning("the end of job %s could not be reported: %s", lease.job.id, error)

    def _outcome(self, lease: Lease, keeper: LeaseKeeper) -> dict[str, Any] | Exception:
        """What the program returned, or why it did not."""

        def progress(news: dict[str, Any]) -> None:
            keeper.tell(news)
            keeper.require()
            if self._stop.is_set():
                raise Stopped("the worker was stopped")

        try:
            return self._programs[lease.job.kind](lease.job, self._client, progress)
        except LeaseGone:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a program dies of is the job's error, not the worker's end
            if not isinstance(error, Stopped):
                log.warning("job %s failed: %s", lease.job.id, error)
            return error

    def _report(self, lease: Lease, keeper: LeaseKeeper, outcome: dict[str, Any] | Exception) -> None:
        keeper.require()
        if isinstance(outcome, Exception):
            final = isinstance(outcome, Hopeless)
            self._client.jobs.fail(lease.job.id, lease.fence, _words(outcome), final=final)
        else:
            self._client.jobs.succeed(lease.job.id, lease.fence, outcome)


def _pause_s(failures: int) -> float:
    """Longer each time, and never the same for two workers: a server that comes back is not stormed."""
    return min(_FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 10), _LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


def _words(error: Exception) -> str:
    words = str(error) if isinstance(error, Hopeless | Stopped | ClientError) else f"{type(error).__name__}: {error}"
    return words[:10_000]
