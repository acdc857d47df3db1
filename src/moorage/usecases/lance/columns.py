"""The columns of Lance tables, their metadata, and table statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from moorage.core.entries import Commit
from moorage.datasets import columns, statistics
from moorage.datasets.columns import Alteration, FieldMetadataResult, FieldMetadataUpdate
from moorage.formats.lance.statistics import TableStats
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.idempotent import change_once, read_changed_table
from moorage.usecases.lance.work import WorkResult, read_table
from moorage.usecases.ports import Errand, Ports

__all__ = ["Alteration", "FieldMetadataResult", "FieldMetadataUpdate"]


async def add_columns(
    ports: Ports, errand: Errand, address: Address, expressions: Mapping[str, str], *, branch: str | None
) -> WorkResult[int]:
    """Add columns that are computed from the other columns of each row."""
    return await change_once(ports, errand, address, _version_number, columns.add, expressions, branch=branch)


async def alter_columns(
    ports: Ports, errand: Errand, address: Address, alterations: Sequence[Alteration], *, branch: str | None
) -> WorkResult[int]:
    return await change_once(ports, errand, address, _version_number, columns.alter, alterations, branch=branch)


async def drop_columns(
    ports: Ports, errand: Errand, address: Address, paths: Sequence[str], *, branch: str | None
) -> WorkResult[int]:
    return await change_once(ports, errand, address, _version_number, columns.drop, paths, branch=branch)


async def update_schema_metadata(
    ports: Ports, errand: Errand, address: Address, metadata: Mapping[str, str], *, branch: str | None
) -> WorkResult[dict[str, str]]:
    """Set keys of the schema's metadata."""

    async def replay(commit: Commit) -> dict[str, str]:
        updates, version = columns.schema_metadata, commit.version
        return await read_changed_table(ports, errand, address, commit, updates, branch=branch, version=version)

    return await change_once(ports, errand, address, replay, columns.update_schema_metadata, metadata, branch=branch)


async def update_field_metadata(
    ports: Ports,
    errand: Errand,
    address: Address,
    updates: Sequence[FieldMetadataUpdate],
    *,
    branch: str | None,
) -> WorkResult[FieldMetadataResult]:
    """Set and remove keys of the metadata of fields."""
    paths = [update.path for update in updates]

    async def replay(commit: Commit) -> FieldMetadataResult:
        read_metadata, version = columns.field_metadata, commit.version
        return await read_changed_table(
            ports, errand, address, commit, read_metadata, paths, branch=branch, version=version
        )

    return await change_once(ports, errand, address, replay, columns.update_field_metadata, updates, branch=branch)


async def _version_number(commit: Commit) -> int:
    return commit.version


async def table_stats(ports: Ports, errand: Errand, address: Address, *, branch: str | None) -> TableStats:
    """The size of the table."""
    return await read_table(ports, errand, address, statistics.table_stats, branch=branch)
