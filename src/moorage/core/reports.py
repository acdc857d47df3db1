"""Reports about work with a table or as a recipient. They are not part of history."""

from __future__ import annotations

from enum import StrEnum


class ReportKind(StrEnum):
    """The subject of a report. For one number, the first report is kept; for scans, writers, lifetimes the latest."""

    COMMIT = "commit"
    SCAN = "scan"
    ACCESS = "access"
    """What a recipient of shares read, or what principals did. Its number is a time."""
    ORIGIN = "origin"
    """Which job made a version. The first report is kept."""
    USE = "use"
    """Which job has read the table. Its number orders the jobs by time."""
    WRITER = "writer"
    """A client was told how to write the files of the table. Its number is 0."""
    LIFETIME = "lifetime"
    """A server hands out URLs that are valid for so many seconds, which is its number."""
