"""What is known about the files of a Delta table, from its log and from the reports of its writers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.core.health import TARGET_FILE_BYTES, Activity, TableFacts, avoidable, small_limit
from moorage.core.reports import ReportKind
from moorage.core.retention import raised_floor
from moorage.core.securables import MAIN, Securable
from moorage.formats.delta.clustering import DOMAIN, logical, parse_domain
from moorage.ledger.port import Report
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.delta.checkpoints import last_checkpoint
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.lookup import is_managed
from moorage.usecases.delta.retention import kept_ms
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.holds import holds_on

if TYPE_CHECKING:
    from moorage.snapshots.snapshot import Snapshot

_TARGET_SIZE: Final = "delta.targetFileSize"
_MAX_TARGET_BYTES: Final = 1 << 40
"""The largest size that a job may request, too."""
_LAST_REPORTS: Final = 100
_MAX_COUNTED: Final = 1_000


async def table_facts(ports: Ports, table: Securable) -> TableFacts:
    """The facts about the newest version of a table."""
    snapshot = await ports.snapshots.at(await table_ref(ports, table))
    from moorage.snapshots.file_facts import file_facts  # imports Arrow, as reading the snapshot did

    target = stated_target_bytes(snapshot.metadata.configuration)
    found = await asyncio.to_thread(file_facts, snapshot, small_limit(target))
    return TableFacts(
        version=snapshot.version,
        files=found.count,
        bytes=found.bytes,
        rows=found.rows,
        small_files=found.small,
        avoidable_files=avoidable(found.groups, target),
        deleted_rows=found.deleted_rows,
        delete_files=found.vectors,
        versions_since_checkpoint=await _versions_since_checkpoint(ports, table, snapshot.version),
        has_own_log=is_managed(table),
        unpublished=_unpublished(table),
        files_without_statistics=found.without_statistics,
        unclustered_bytes=found.bytes - found.clustered_bytes if DOMAIN in snapshot.domains else 0,
        clustering_depth=await asyncio.to_thread(_clustering_depth, snapshot),
        old_versions=await _old_versions(ports, table, snapshot.metadata.configuration),
        activity=await _activity(ports, table, snapshot.version),
    )


def _clustering_depth(snapshot: Snapshot) -> float | None:
    from moorage.snapshots.clustering_depth import clustering_depth

    domain = snapshot.domains.get(DOMAIN)
    if domain is None:
        return None
    return clustering_depth(snapshot, logical(parse_domain(domain.configuration), snapshot.schema))


def stated_target_bytes(configuration: Mapping[str, str]) -> int:
    """The target size of files that a table states: in bytes, or with a unit as in `128mb`. Otherwise the default."""
    text = configuration.get(_TARGET_SIZE, "").strip().lower().removesuffix("b")
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
    unit = units.get(text[-1:], 1)
    digits = text.rstrip("kmg").strip()
    stated = int(digits) * unit if digits.isascii() and digits.isdigit() else 0
    return min(stated, _MAX_TARGET_BYTES) or TARGET_FILE_BYTES


async def _old_versions(ports: Ports, table: Securable, configuration: Mapping[str, str]) -> int:
    """How many versions an expiry would make unavailable, counted up to a limit. Clients expire external tables."""
    if not is_managed(table) or table.head is None:
        return 0
    try:
        cutoff_ms = ports.now_ms() - kept_ms(table, configuration)
    except InvalidInput:  # an expiry would report it
        return 0
    floor = table.head.floor
    oldest = await ports.ledger.versions(table.id, MAIN, first=floor, limit=_MAX_COUNTED)
    if raised_floor(oldest, floor, cutoff_ms) == floor:
        return 0
    holds = await holds_on(ports, await find_by_id(ports.ledger, table.id))
    return raised_floor(oldest, floor, cutoff_ms, [hold.version for hold in holds]) - floor


def _unpublished(table: Securable) -> int:
    if not is_managed(table) or table.head is None:
        return 0
    return table.head.version - (table.head.published or 0)


async def _versions_since_checkpoint(ports: Ports, table: Securable, version: int) -> int:
    hint = await last_checkpoint(ports, table.doc.location or "")
    return version + 1 if hint is None or hint > version else version - hint


async def _activity(ports: Ports, table: Securable, version: int) -> Activity:
    reports = await ports.ledger.reports(
        table.id, kind=ReportKind.COMMIT, after=version - _LAST_REPORTS, limit=_LAST_REPORTS
    )
    bodies = [_body(each) for each in reports]
    return Activity(
        commits=len(bodies),
        files_added=sum(_count(each, "num_files_added") for each in bodies),
        bytes_added=sum(_count(each, "num_bytes_added") for each in bodies),
    )


def _body(report: Report) -> dict[str, Any]:
    found = msgspec.json.decode(report.body)
    return found if isinstance(found, dict) else {}


def _count(body: dict[str, Any], name: str) -> int:
    value = body.get(name)
    return value if isinstance(value, int) else 0
