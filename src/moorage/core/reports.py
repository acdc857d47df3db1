"""What clients tell about their work with a table."""

from __future__ import annotations

from enum import StrEnum


class ReportKind(StrEnum):
    """What a report is about. Of a commit the first report counts, of scans the latest."""

    COMMIT = "commit"
    SCAN = "scan"
