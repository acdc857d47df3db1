"""Follows a job until it ends: a progress bar on a terminal, lines in a log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from moorage.cli.job_text import summary

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.answers import Job

_TERMINAL_SECONDS: Final = 0.5
_LOG_SECONDS: Final = 10.0


def watch(client: Client, job: Job) -> Job:
    """Print the progress of a job to standard error until it ends, and return it."""
    is_terminal = sys.stderr.isatty()
    width, last, printed_at = 0, "", 0.0
    while job.ended_at_ms is None:
        line = f"{job.kind} {job.state}  {summary(job)}".rstrip()
        if is_terminal:
            print(f"\r{line:<{width}}", end="", file=sys.stderr, flush=True)
            width = len(line)
        elif line != last and time.monotonic() - printed_at >= _LOG_SECONDS:
            print(line, file=sys.stderr, flush=True)
            printed_at, last = time.monotonic(), line
        time.sleep(_TERMINAL_SECONDS)
        job = client.jobs.get(job.id)
    if width:
        print(f"\r{'':<{width}}\r", end="", file=sys.stderr, flush=True)
    return job
