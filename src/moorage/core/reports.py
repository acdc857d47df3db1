"""Reports about work with a table or as a recipient. They are not part of history."""

from __future__ import annotations

from enum import StrEnum


class ReportKind(StrEnum):
    """The subject of a report. The first report is kept for a commit, the latest for scans, and all for accesses."""

    COMMIT = "commit"
    SCAN = "scan"
    ACCESS = "access"
    """What a recipient of shares read. Its number is a time."""
