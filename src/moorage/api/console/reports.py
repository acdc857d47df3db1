"""Reports of clients on their commits and scans."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from moorage.api.console.api import Paging, console, levels
from moorage.api.console.bodies import Whole
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, TableNotFound
from moorage.core.reports import ReportKind
from moorage.http import Answer, Call, Example, NoBody
from moorage.usecases.catalog import addresses
from moorage.usecases.catalog.paging import page_size
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep import reports


class ReportPaging(Paging, frozen=True, kw_only=True):
    """Which reports to list: on commits or on scans."""

    kind: Annotated[Literal["commit", "scan"], Meta(description="What the reports are about.")] = "commit"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The report on one version, as its client sent it."""

    version: Whole
    at_ms: Whole
    report: dict[str, Any]


class ReportList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of reports. Without a token it is the last page."""

    items: tuple[Report, ...]
    next_page_token: str | None


_EXAMPLE = {
    "version": 1,
    "at_ms": 1794737732278,
    "report": {"num_files_added": 1, "num_bytes_added": 1199, "commit_version": 1},
}


@console.get(
    "/catalogs/{catalog}/namespaces/{namespace}/tables/{table}/reports",
    operation="listReports",
    summary="List the reports on the commits or the scans of a table.",
    stage="public_preview",
    tags=("tables",),
    query=ReportPaging,
    answer=ReportList,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound),
    example=Example(
        path={"catalog": "sample", "namespace": "sales", "table": "orders"},
        answer={"items": [_EXAMPLE], "next_page_token": None},
    ),
)
async def list_reports(call: Call[NoBody, ReportPaging], ports: Ports) -> Answer:
    """List one report per version: the first one on its commit, or the latest one on its scans."""
    space = addresses.namespace(call.params["catalog"], *levels(call.params["namespace"]))
    page = await reports.page(
        ports,
        call.caller,
        addresses.table(space, call.params["table"]),
        kind=ReportKind(call.query.kind),
        token=call.query.page_token,
        limit=page_size(call.query.max_results),
    )
    items = tuple(
        Report(version=kept.version, at_ms=kept.at_ms, report=msgspec.json.decode(kept.body)) for kept in page.items
    )
    return Answer.json(ReportList(items=items, next_page_token=page.next_token))
