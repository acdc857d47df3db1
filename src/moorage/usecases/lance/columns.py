"""The columns of Lance tables, and what is noted about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moorage.core.entries import Commit
from moorage.datasets import columns, statistics
from moorage.datasets.columns import Alteration, FieldMetadataResult, FieldMetadataUpdate
from moorage.formats.lance.statistics import TableStats
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.idempotent import change_once, read_again
from moorage.usecases.lance.work import Worked, read_table
from moorage.usecases.ports import Errand, Ports

__all__ = ["Alteration", "FieldMetadataResult", "FieldMetadataUpdate"]


async def add_columns(
    ports: Ports, errand: Errand, address: Address, expressions: Mapping[str, str], *, branch: str | None
) -> Worked[int]:
    """New columns, computed from the others of their row."""
    return await change_once(ports, errand, address, _number, columns.add, expressions, branch=branch)


async def alter_columns(
    ports: Ports, errand: Errand, address: Address, alterations: Sequence[Alteration], *, branch: str | None
) -> Worked[int]:
    return await change_once(ports, errand, address, _number, columns.alter, alterations, branch=branch)


async def drop_columns(
    ports: Ports, errand: Errand, address: Address, paths: Sequence[str], *, branch: str | None
) -> Worked[int]:
    return await change_once(ports, errand, address, _number, columns.drop, paths, branch=branch)


async def update_schema_metadata(
    ports: Ports, errand: Errand, address: Address, metadata: Mapping[str, str], *, branch: str | None
) -> Worked[dict[str, str]]:
    """Set keys of the schema's metadata."""

    async def retell(commit: Commit) -> dict[str, str]:
        notes, version = columns.schema_metadata, commit.version
        return await read_again(ports, errand, address, commit, notes, branch=branch, version=version)

    return await change_once(ports, errand, address, retell, columns.update_schema_metadata, metadata, branch=branch)


async def update_field_metadata(
    ports: Ports,
    errand: Errand,
    address: Address,
    notes: Sequence[FieldMetadataUpdate],
    *,
    branch: str | None,
) -> Worked[FieldMetadataResult]:
    """Set and remove keys of the metadata of fields."""
    paths = [note.path for note in notes]

    async def retell(commit: Commit) -> FieldMetadataResult:
        noted, version = columns.field_metadata, commit.version
        return await read_again(ports, errand, address, commit, noted, paths, branch=branch, version=version)

    return await change_once(ports, errand, address, retell, columns.update_field_metadata, notes, branch=branch)


async def _number(commit: Commit) -> int:
    return commit.version


async def table_stats(ports: Ports, errand: Errand, address: Address, *, branch: str | None) -> TableStats:
    """How large the table is."""
    return await read_table(ports, errand, address, statistics.table_stats, branch=branch)
