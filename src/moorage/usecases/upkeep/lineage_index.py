"""Finds jobs by the tables that they have read and written."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import msgspec

from moorage.core.ids import JobId, SecurableId
from moorage.core.lineage import MAX_VERSIONS, lineage_of, order_of
from moorage.core.reports import ReportKind
from moorage.usecases.ports import Ports

_NO_VERSION: Final = 2**63


async def index_lineage(ports: Ports, job: JobId, result: dict[str, Any]) -> None:
    """Store the reports that find this job from the tables that it has read and written. Safe to repeat."""
    body = msgspec.json.encode({"job": job})
    notes = [
        ports.ledger.store_report(SecurableId(step.output.id), int(version), body, kind=ReportKind.ORIGIN)
        for step in lineage_of(result).steps
        for version in step.output.versions[-MAX_VERSIONS:]
        if int(version) < _NO_VERSION
    ]
    read = {each.id for step in lineage_of(result).steps for each in step.inputs if each.id != step.output.id}
    notes += [
        ports.ledger.store_report(SecurableId(id), order_of(job), body, kind=ReportKind.USE) for id in sorted(read)
    ]
    await asyncio.gather(*notes)
