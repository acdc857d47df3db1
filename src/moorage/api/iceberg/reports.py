"""Reports of clients on commits and scans."""

from __future__ import annotations

import msgspec

from moorage.api.iceberg.api import iceberg, relation_of
from moorage.api.iceberg.bodies import EXAMPLE_TABLE, Kebab
from moorage.api.iceberg.tables import MISSING
from moorage.core.errors import InvalidInput
from moorage.core.securables import Kind
from moorage.http import Answer, Call, Example, Int64, NoQuery
from moorage.usecases.iceberg import reports as iceberg_reports
from moorage.usecases.ports import Ports


class ReportMetricsRequest(Kebab, frozen=True, kw_only=True):
    """A scan-report or a commit-report. Its other properties are stored too."""

    report_type: str
    table_name: str
    snapshot_id: Int64


@iceberg.post(
    "/v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    operation="reportMetrics",
    summary="Report on a commit or a scan.",
    tags=("tables",),
    body=ReportMetricsRequest,
    status=204,
    errors=(InvalidInput, *MISSING),
    keyed=False,
    example=Example(
        path=EXAMPLE_TABLE,
        body={"report-type": "commit-report", "table-name": "sales.shipments", "snapshot-id": 1},
    ),
)
async def report_metrics(call: Call[ReportMetricsRequest, NoQuery], ports: Ports) -> Answer:
    """Report the metrics of a commit or a scan, for the maintenance of the table."""
    body, report = call.body, msgspec.json.decode(call.raw_body)
    address = relation_of(call, Kind.TABLE)
    await iceberg_reports.store_report(ports, call.caller, address, body.report_type, body.snapshot_id, report)
    return Answer.empty()
