"""Jobs: created by users, taken by workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moorage.client.answers import Job, Lease, Page, RenewedLease
from moorage.client.transport import API, Transport, address
from moorage.core.entries import JobState


class JobQueue:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(self, kind: str, args: Mapping[str, Any] | None = None, *, key: str | None = None) -> Job:
        """Create a job. If a job of this kind is already open, returns that job."""
        return self._transport.change("POST", f"{API}/jobs", Job, body={"kind": kind, "args": args or {}}, key=key)

    def get(self, id: str) -> Job:
        return self._transport.read(_job(id), Job)

    def list(
        self,
        *,
        state: JobState | None = None,
        kind: str | None = None,
        subject: str | None = None,
        newest_first: bool = False,
    ) -> Iterator[Job]:
        """The jobs in the order of their creation, or the newest first. `subject` is the id of a table."""
        query = {"state": state, "kind": kind, "subject": subject, "newest_first": newest_first}
        return self._transport.list(f"{API}/jobs", Page[Job], query)

    def cancel(self, id: str) -> Job:
        return self._transport.change("POST", f"{_job(id)}:cancel", Job)

    def retry(self, id: str) -> Job:
        """Run a job that ended again, as a new job. While an equal job is open, returns that one."""
        return self._transport.change("POST", f"{_job(id)}:retry", Job)

    # --- for workers. No retries here: a worker has a lease, so it decides itself when to retry ---

    def take(self, worker: str, kinds: Sequence[str], *, wait_s: float = 0.0) -> Lease | None:
        """Lease the oldest due job of these kinds. If there is none, waits up to `wait_s` seconds for one."""
        body = {"worker": worker, "kinds": list(kinds), "wait_seconds": wait_s}
        # mypy does not accept a union as a type argument, but msgspec decodes it.
        return self._transport.note(f"{API}/jobs:take", Lease | None, body=body, patience_s=0.0)  # type: ignore[arg-type]

    def renew(self, id: str, fence: str, progress: Mapping[str, Any] | None = None) -> int:
        """Renew the lease and return its new end. The error LEASE_LOST means that another worker has the job."""
        body = {"fence": fence, "progress": progress}
        return self._transport.note(f"{_job(id)}:renew", RenewedLease, body=body, patience_s=0.0).until_ms

    def succeed(self, id: str, fence: str, result: Mapping[str, Any]) -> Job:
        return self._transport.change("POST", f"{_job(id)}:succeed", Job, body={"fence": fence, "result": result})

    def postpone(self, id: str, fence: str, until_ms: int, reason: str) -> Job:
        """Return a job that cannot run yet. It becomes due again at that time, and the attempt does not count."""
        body = {"fence": fence, "until_ms": until_ms, "reason": reason}
        return self._transport.note(f"{_job(id)}:postpone", Job, body=body)

    def fail(self, id: str, fence: str, error: str, *, final: bool = False) -> Job:
        """Report a failure. Unless it is final, the job becomes due again after a delay."""
        body = {"fence": fence, "error": error, "final": final}
        return self._transport.change("POST", f"{_job(id)}:fail", Job, body=body)


def _job(id: str) -> str:
    return f"{API}/jobs{address(id)}"
