"""What a program is: the function that runs one kind of job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from moorage.client import Client
from moorage.client.answers import Job

Progress = Callable[[dict[str, Any]], None]
"""Reports progress. Raises if the program must end: the lease is lost, or the worker stops."""

Program = Callable[[Job, Client, Progress], dict[str, Any]]
"""Runs a job and returns its result. The client sends the job's fence with every request."""


class Failure(Exception):
    """The job failed, and the message says why. Another attempt may succeed."""


class PermanentFailure(Failure):
    """The job failed permanently: another attempt would fail in the same way."""


class Postponed(Exception):
    """The job cannot run yet: it waits for writers of its table. The worker returns it, and takes another one."""

    def __init__(self, reason: str, until_ms: int) -> None:
        super().__init__(reason)
        self.until_ms = until_ms
