"""What is known about the files of an Iceberg table."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from moorage.core.errors import Unsupported
from moorage.core.health import TableFacts
from moorage.core.reports import ReportKind
from moorage.core.securables import Kind, Securable
from moorage.formats.iceberg.health import activity_of, current_snapshot, facts, summary_facts
from moorage.formats.iceberg.specs import specs_of
from moorage.usecases.iceberg.lookup import require_head
from moorage.usecases.iceberg.manifests import TableFiles, read_manifest_list, read_manifests, uncached_bytes
from moorage.usecases.iceberg.metadata_files import load_metadata
from moorage.usecases.ports import Ports

_MAX_READ_BYTES: Final = 64 * 1024 * 1024
"""If the manifests are larger, the totals in the snapshot's summary are used."""
_LAST_REPORTS: Final = 100


async def table_facts(ports: Ports, table: Securable) -> TableFacts | None:
    """The facts about the newest version of a table; None for a view, or a table without metadata."""
    if table.kind is Kind.VIEW or table.head is None:
        return None
    doc = (await load_metadata(ports, table)).doc
    version, now_ms = require_head(table).version, ports.now_ms()
    commits, scans = [
        [
            msgspec.json.decode(each.body)
            for each in await ports.ledger.reports(
                table.id, kind=kind, after=version - _LAST_REPORTS, limit=_LAST_REPORTS
            )
        ]
        for kind in (ReportKind.COMMIT, ReportKind.SCAN)
    ]
    activity = activity_of(commits, scans)
    snapshot = current_snapshot(doc)
    if snapshot is None:
        return TableFacts(version=version, files=0, bytes=0, rows=0, activity=activity)
    source = TableFiles(table.id, table.locations)
    try:
        listed = await read_manifest_list(ports, source, snapshot)
        if uncached_bytes(ports, source, listed) > _MAX_READ_BYTES:
            return summary_facts(doc, version, activity, now_ms=now_ms)
        found = await read_manifests(ports, source, listed, specs_of(doc))
    except Unsupported:  # a manifest is too large, or outside the table's locations
        return summary_facts(doc, version, activity, now_ms=now_ms)
    files = (file for manifest in found for file in manifest.files)
    return await asyncio.to_thread(facts, doc, version, listed, files, activity, now_ms=now_ms)
