"""Reports from clients about their work with a table."""

from __future__ import annotations

from enum import StrEnum


class ReportKind(StrEnum):
    """The subject of a report. The first report is kept for a commit, the latest for scans."""

    COMMIT = "commit"
    SCAN = "scan"
