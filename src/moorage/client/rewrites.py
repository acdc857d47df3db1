"""Rewrites of the files of a table, for the program of a compaction job."""

from __future__ import annotations

from moorage.client.transport import API, Transport, address
from moorage.core.rewrites import Checkpointed, Expired, NextShadow, OfferResult, Shadow, StatisticsAdded


class Rewrites:
    """The client must be that of `Client.for_job`: the server checks the lease."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def next_shadow(self, id: str) -> NextShadow:
        """The next files to rewrite, as a small table in the folder of the real one, or for whom the job waits."""
        return self._transport.note(f"{_table(id)}/shadows", NextShadow, body=None)

    def offer(self, id: str, shadow: Shadow) -> OfferResult:
        """Commit what Spark made of a shadow."""
        body = {"folder": shadow.folder, "base_version": shadow.base_version}
        return self._transport.change("POST", f"{_table(id)}/offers", OfferResult, body=body)

    def announce_expiry(self, id: str) -> Expired:
        """Make old versions unavailable, and enqueue the deletion of their files."""
        return self._transport.change("POST", f"{_table(id)}/expiry", Expired, is_long=True)

    def delete_expired(self, id: str) -> Expired:
        """Delete the files of unavailable versions."""
        return self._transport.note(f"{_table(id)}/deletion", Expired, body=None, is_long=True)

    def write_checkpoint(self, id: str) -> Checkpointed:
        """Write a checkpoint of a Delta table."""
        return self._transport.note(f"{_table(id)}/checkpoint", Checkpointed, body=None, is_long=True)

    def add_statistics(self, id: str, after: str | None) -> StatisticsAdded:
        """Compute the statistics of the next files of a Delta table that have none."""
        return self._transport.note(f"{_table(id)}/statistics", StatisticsAdded, body={"after": after})


def _table(id: str) -> str:
    return f"{API}/tables{address(id)}"
