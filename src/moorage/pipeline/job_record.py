"""What a worker records about a job while it runs: its progress, and a log of its attempts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from moorage.client.answers import Job

_MAX_LINES: Final = 50
_MAX_TEXT: Final = 500


class JobRecord:
    """The progress document of a job.

    Keys with a meaning for every kind of job: `fraction` (0 to 1), `step` (what is being done), `spark` (application id
    and UI address), and `log` (the last lines of all attempts). A program adds keys of its own. The log continues that
    of earlier attempts; everything else starts anew with each attempt.
    """

    def __init__(self, job: Job, worker: str) -> None:
        self._attempt, self._worker = job.attempt, worker
        self._log: list[dict[str, Any]] = list((job.progress or {}).get("log", ()))
        self._state: dict[str, Any] = {}

    def update(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Merge what a program reports. A new step also becomes a line of the log."""
        if "step" in state and state["step"] != self._state.get("step"):
            self.add_line(str(state["step"]))
        self._state.update(state)
        return self.document()

    def add_line(self, text: str) -> None:
        line = {"at_ms": time.time_ns() // 1_000_000, "attempt": self._attempt, "worker": self._worker}
        self._log = [*self._log, {**line, "text": text[:_MAX_TEXT]}][-_MAX_LINES:]

    def document(self) -> dict[str, Any]:
        return {**self._state, "log": list(self._log)} if self._log else dict(self._state)
