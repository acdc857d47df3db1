"""Lineage: what versions of tables were made of, and what was made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from moorage.client.answers import Job
from moorage.client.catalog import LEVELS
from moorage.client.transport import API, Transport, address


class LineageInput(msgspec.Struct, frozen=True, kw_only=True):
    """A table that was read; without a name if the caller may not see it."""

    table: str | None = None
    id: str | None = None
    version: str | None = None
    until: str | None = None
    """The newest version that may have been read, if another writer committed meanwhile."""


class LineageOutput(msgspec.Struct, frozen=True, kw_only=True):
    table: str
    id: str
    versions: tuple[str, ...] = ()


class LineageStep(msgspec.Struct, frozen=True, kw_only=True):
    """What one job made one table of."""

    job: str
    kind: str
    pipeline: str | None = None
    started_at_ms: int
    ended_at_ms: int | None = None
    output: LineageOutput
    inputs: tuple[LineageInput, ...] = ()
    sources: tuple[str, ...] = ()
    columns: dict[str, tuple[str, ...]] = {}


class TableLineage(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that lead to a version of a table, or from it, the nearest first."""

    table: str
    id: str
    version: str | None = None
    steps: tuple[LineageStep, ...] = ()
    complete: bool = True


class LineageRecords:
    """Versions are texts: the version of a Delta or Lance table, or the id of a snapshot of an Iceberg table."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(
        self,
        catalog: str,
        path: Sequence[str],
        table: str,
        *,
        version: str | None = None,
        direction: Literal["upstream", "downstream"] = "upstream",
        limit: int = 100,
    ) -> TableLineage:
        """What a version was made of, or what was made of it."""
        query = {"version": version, "direction": direction, "limit": limit}
        given = {name: value for name, value in query.items() if value is not None}
        return self._transport.read(_lineage(catalog, path, table), TableLineage, query=given)

    def record(
        self,
        catalog: str,
        path: Sequence[str],
        table: str,
        versions: Sequence[str],
        *,
        previous: str | None = None,
        inputs: Sequence[tuple[Sequence[str], str | None]] = (),
        sources: Sequence[str] = (),
        columns: Mapping[str, Sequence[str]] | None = None,
        counts: Mapping[str, int] | None = None,
    ) -> Job:
        """Record what versions of a table were made of: other tables (path, version), and files outside the catalog.

        `previous` is the version that the rows were added to; None if they replaced all rows.
        """
        body = {
            "versions": list(versions),
            "previous": previous,
            "inputs": [{"path": list(each), "version": version} for each, version in inputs],
            "sources": list(sources),
            "columns": columns or {},
            "counts": counts or {},
        }
        return self._transport.change("POST", _lineage(catalog, path, table), Job, body=body)


def _lineage(catalog: str, path: Sequence[str], table: str) -> str:
    return f"{API}/catalogs{address(catalog)}/namespaces{address(LEVELS.join(path))}/tables{address(table)}/lineage"
