"""Compaction of a table on request."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.api.errands import errand_of
from moorage.api.job_info import EXAMPLE_JOB, JobInfo, job_info, job_location_header
from moorage.api.unity.api import unity
from moorage.api.unity.names import address_of
from moorage.core.errors import CatalogNotFound, InvalidInput, NamespaceNotFound, TableNotFound
from moorage.core.jobs import COMPACT
from moorage.core.securables import Kind
from moorage.http import Answer, Call, Example, NoQuery
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep import compaction as upkeep


class CompactTable(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a compaction."""

    target_file_size_mb: (
        Annotated[int, Meta(ge=8, le=2**31 - 1, description="The target size of files. If absent, the worker decides.")]
        | None
    ) = None


@unity.post(
    "/tables/{full_name}:compact",
    operation="compactTable",
    summary="Enqueue a compaction job for a table.",
    stage="private_preview",
    tags=("tables", "maintenance"),
    body=CompactTable,
    body_required=False,
    answer=JobInfo,
    status=202,
    errors=(InvalidInput, CatalogNotFound, NamespaceNotFound, TableNotFound),
    example=Example(
        path={"full_name": "sample.sales.orders"},
        body={"target_file_size_mb": 128},
        answer=EXAMPLE_JOB
        | {
            "kind": COMPACT,
            "subject": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d10",
            "args": {"target_file_size_mb": 128},
        },
    ),
)
async def compact_table(call: Call[CompactTable, NoQuery], ports: Ports) -> Answer:
    """Request that a worker rewrites small files as large ones. `Location` is the URL of the job.

    If a compaction of the table is already open, the response contains that job. The job stays `queued` while clients
    change rows of the table, because a rewrite would make such a write fail; `error` then names the client.
    """
    address = address_of(Kind.TABLE, call.params["full_name"])
    job = await upkeep.compact(
        ports, errand_of(call, ports), address, target_file_size_mb=call.body.target_file_size_mb
    )
    return Answer.json(job_info(job), 202, (job_location_header(job),))
