"""The counts in the summary of a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moorage.formats.iceberg.documents import Document
from moorage.uniform.entries import DELETES, Entry
from moorage.uniform.tables import VERSION


class Totals(NamedTuple):
    """Counts of a snapshot, or of what one adds or ends."""

    files: int = 0
    records: int = 0
    size: int = 0
    vectors: int = 0
    deleted: int = 0

    def __add__(self, other: tuple[int, ...]) -> Totals:  # type: ignore[override]
        return Totals(*(one + two for one, two in zip(self, other, strict=True)))

    def __sub__(self, other: Totals) -> Totals:
        return Totals(*(one - two for one, two in zip(self, other, strict=True)))

    @classmethod
    def of_entries(cls, entries: Sequence[Entry], content: int) -> Totals:
        rows = sum(entry.rows for entry in entries)
        if content == DELETES:
            return cls(vectors=len(entries), deleted=rows)
        return cls(len(entries), rows, sum(entry.size for entry in entries))

    @classmethod
    def before(cls, doc: Document) -> Totals:
        summary = doc["snapshots"][-1]["summary"]
        names = ("data-files", "records", "files-size", "delete-files", "position-deletes")
        return cls(*(int(summary[f"total-{name}"]) for name in names))


def summary_of(operation: str, gained: Totals, lost: Totals, total: Totals, version: int) -> dict[str, str]:
    counts = {
        "added-data-files": gained.files,
        "added-records": gained.records,
        "added-files-size": gained.size,
        "deleted-data-files": lost.files,
        "deleted-records": lost.records,
        "removed-files-size": lost.size,
        "added-delete-files": gained.vectors,
        "added-dvs": gained.vectors,
        "added-position-deletes": gained.deleted,
        "removed-delete-files": lost.vectors,
        "removed-dvs": lost.vectors,
        "removed-position-deletes": lost.deleted,
    }
    totals = {
        "total-data-files": total.files,
        "total-records": total.records,
        "total-files-size": total.size,
        "total-delete-files": total.vectors,
        "total-position-deletes": total.deleted,
        "total-equality-deletes": 0,
    }
    shown = {name: str(count) for name, count in counts.items() if count}
    return {
        "operation": operation,
        **shown,
        **{name: str(count) for name, count in totals.items()},
        VERSION: str(version),
    }
