"""Lineage: which versions of which tables a version of a table was made of. Part of the result of a job."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

LINEAGE: Final = "lineage"
"""The key of the lineage in the result of a job."""
MAX_STEPS: Final = 1_000
MAX_VERSIONS: Final = 1_000
"""The most versions of one table that one job is recorded as the origin of: the newest ones."""

Version = Annotated[str, Meta(pattern="^[0-9]{1,19}$")]
"""The version of a Delta or Lance table, or the id of a snapshot of an Iceberg table, which JSON has no number for."""


class Input(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table that was read. The id stays when the table is renamed."""

    table: str
    id: str
    version: Version | None = None
    """None: the table had no version."""
    until: Version | None = None
    """The newest version that may have been read, if another writer committed meanwhile."""


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table that was written, and its new versions in order."""

    table: str
    id: str
    versions: tuple[Version, ...] = ()


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one table was made of."""

    output: Output
    inputs: tuple[Input, ...] = ()
    sources: tuple[str, ...] = ()
    """Folders, files and other things outside the catalog."""
    columns: dict[str, tuple[str, ...]] = {}
    """Column → the columns that it was computed from, as `table.column`. Columns that are not known are left out."""


class Lineage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one job has read and written."""

    steps: tuple[Step, ...] = ()


def lineage_of(result: Mapping[str, Any] | None) -> Lineage:
    """The lineage in the result of a job. A result without a valid one has none: workers of other releases exist."""
    try:
        return msgspec.convert((result or {}).get(LINEAGE) or {}, Lineage)
    except msgspec.ValidationError:
        return Lineage()


def to_result(lineage: Lineage) -> dict[str, Any]:
    return {LINEAGE: msgspec.to_builtins(lineage)}


def order_of(job: str) -> int:
    """A number that orders jobs by the time of their creation, from the time and the first random bits of their id."""
    return uuid.UUID(job).int >> 65


def has_read(step: Step, table: str, version: str | None) -> bool:
    """Whether the step has read this version of a table, or any version."""
    found = (each for each in step.inputs if each.id == table)
    return any(version is None or version in (each.version, each.until) for each in found)


def resolve_reads(
    flows: Mapping[str, tuple[str, ...]], tables: frozenset[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each table of a graph with the tables that it is computed from, across temporary views.

    `flows`: output → what it reads, `tables`: the outputs that are tables and not temporary views.
    """
    for target in flows:
        if target in tables:
            yield target, tuple(sorted(_behind(target, flows, tables)))


def _behind(target: str, flows: Mapping[str, tuple[str, ...]], tables: frozenset[str]) -> set[str]:
    found, seen, waiting = set[str](), {target}, list(flows[target])
    while waiting:
        read = waiting.pop()
        if read in flows and read not in tables:
            if read not in seen:
                seen.add(read)
                waiting += flows[read]
        else:
            found.add(read)
    return found
