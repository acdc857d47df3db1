"""Ingest: files into a table, each row exactly once, with what could not be read in a side table."""

from moorage.pipeline.ingest.requests import IngestRefused, Request, Summary
from moorage.pipeline.ingest.run import ingest

__all__ = ["IngestRefused", "Request", "Summary", "ingest"]
