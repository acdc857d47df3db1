"""Jobs as text for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from moorage.client.answers import Job

_BAR: Final = 24
_ABOUT: Final = 28
_ROW: Final = "{:<36}  {:<10}  {:<9}  {:<19}  {:>7}  {}"


def header() -> str:
    return _ROW.format("id", "kind", "state", "created", "attempt", f"{'about':<{_ABOUT}}  progress")


def as_row(job: Job, about: str | None = None) -> str:
    """A job in one line, with the name of its table or pipeline where that is not known to the reader."""
    attempt = f"{job.attempt} of {job.attempts}"
    end = summary(job) if about is None else f"{about:<{_ABOUT}}  {summary(job)}"
    return _ROW.format(job.id, job.kind, job.state, _moment(job.created_at_ms), attempt, end).rstrip()


def as_lines(job: Job, about: str) -> list[str]:
    """Every fact about a job, one per line."""
    progress = job.progress or {}
    spark = progress.get("spark") or {}
    facts = {
        "job": f"{job.id} ({job.kind})",
        "state": f"{job.state}, attempt {job.attempt} of {job.attempts}",
        "about": about,
        "reason": job.args.get("reason"),
        "created": _moment(job.created_at_ms),
        "due": _moment(job.not_before_ms) if job.not_before_ms > job.created_at_ms and not job.ended_at_ms else None,
        "ended": _moment(job.ended_at_ms) if job.ended_at_ms else None,
        "worker": job.worker,
        "progress": summary(job) if job.progress and not job.ended_at_ms else None,
        "spark": " ".join(str(spark[key]) for key in ("application", "ui") if spark.get(key)) or None,
        "error": job.error,
        **_result(job.result or {}),
    }
    lines = [f"{name:<12} {value}" for name, value in facts.items() if value]
    log = progress.get("log", ())
    return lines + [f"  {_moment(line['at_ms'])}  attempt {line['attempt']}  {line['text']}" for line in log]


def _result(result: dict[str, Any]) -> dict[str, str]:
    """Before and after side by side, then every other value."""
    before, after = result.get("before"), result.get("after")
    shown: dict[str, str] = {}
    if isinstance(before, dict) and isinstance(after, dict):
        for what in before:
            shown[what] = f"{_number(before[what])} → {_number(after.get(what))}"
    for name, value in result.items():
        if name not in ("before", "after"):
            shown[name] = _number(value)
    return shown


def summary(job: Job) -> str:
    """The progress of a job in one line: a bar if its fraction is known, and the current step."""
    progress = job.progress or {}
    if job.ended_at_ms is not None:
        return job.error or ""
    parts = []
    fraction = progress.get("fraction")
    if isinstance(fraction, int | float):
        parts.append(bar(float(fraction)))
    if progress.get("step"):
        parts.append(str(progress["step"]))
    counts = {name: value for name, value in progress.items() if isinstance(value, int) and name != "fraction"}
    parts += [f"{value:,} {name}" for name, value in counts.items()]
    return "  ".join(parts) or (job.error or "")


def bar(fraction: float) -> str:
    done = round(min(max(fraction, 0.0), 1.0) * _BAR)
    return f"[{'#' * done}{'.' * (_BAR - done)}] {min(max(fraction, 0.0), 1.0):>4.0%}"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
