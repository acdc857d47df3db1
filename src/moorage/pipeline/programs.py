"""What a worker can do: one function for each kind of job."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from moorage.client import Client
from moorage.client.answers import FeedEntry, Job
from moorage.core.jobs import AUDIT

Progress = Callable[[dict[str, Any]], None]
"""Hears how far the work has come. Raises when the work must end: the lease is lost, the worker stops."""

Program = Callable[[Job, Client, Progress], dict[str, Any]]

_canonical = msgspec.json.Encoder(order="sorted").encode


class Hopeless(Exception):
    """Another attempt would end the same way."""


def audit(job: Job, client: Client, progress: Progress) -> dict[str, Any]:
    """Read the whole feed and prove that no entry is missing, out of order or told twice."""
    last = client.health().seq
    whole = hashlib.sha256()
    drafts: set[str] = set()
    before: FeedEntry | None = None
    for entry in client.feed.read(up_to=last):
        _require_next(before, entry)
        if entry.draft in drafts:
            raise Hopeless(f"entry {entry.seq} repeats the draft {entry.draft}")
        drafts.add(entry.draft)
        whole.update(_canonical(entry) + b"\n")
        before = entry
        if entry.seq % 1000 == 0:
            progress({"entries": entry.seq})
    if len(drafts) != last:
        raise Hopeless(f"the feed ends at entry {len(drafts)}, but the ledger at {last}")
    return {"entries": last, "sha256": whole.hexdigest()}


def _require_next(before: FeedEntry | None, entry: FeedEntry) -> None:
    expected = 1 if before is None else before.seq + 1
    if entry.seq != expected:
        raise Hopeless(f"entry {entry.seq} stands where entry {expected} belongs")
    if before is not None and entry.at_ms < before.at_ms:
        raise Hopeless(f"entry {entry.seq} is older than the one before it")


PROGRAMS: Mapping[str, Program] = {AUDIT: audit}
