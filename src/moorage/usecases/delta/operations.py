"""A Delta commit as one operation of a transaction, beside others of any format."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.core.callers import Caller
from moorage.core.errors import VersionTaken
from moorage.formats.delta.commit_check import Proposal, require_fields
from moorage.usecases.catalog.objects import Beside
from moorage.usecases.delta.commits import CommitRequest, Repeated, prepare_commit
from moorage.usecases.ports import Ports
from moorage.usecases.settling.settle import Part
from moorage.usecases.settling.transact import Operation, offers

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class DeltaCommit(Operation, frozen=True, kw_only=True, tag="delta_commit"):
    """Ratify a staged commit as the next version of a managed Delta table."""

    table_id: str
    version: _Int64
    timestamp: _Int64
    file_name: str
    file_size: _Int64
    file_modification_timestamp: _Int64


@offers(DeltaCommit)
async def _commit(ports: Ports, caller: Caller, op: DeltaCommit, beside: Beside) -> Part:
    """Whether this very commit is history already cannot be all of the answer: what about the other operations?

    So it is a taken version here. A transaction that may be sent again carries a key.
    """
    proposal = Proposal(
        version=op.version,
        timestamp_ms=op.timestamp,
        file_name=op.file_name,
        file_size=op.file_size,
        file_modified_ms=op.file_modification_timestamp,
    )
    require_fields(proposal)
    try:
        return await prepare_commit(ports, caller, CommitRequest(table_id=op.table_id, proposal=proposal))
    except Repeated:
        raise VersionTaken(
            f"version {op.version} was ratified from this very file before; to repeat a transaction safely, "
            "send it with the Idempotency-Key of its first sending",
            field="version",
        ) from None
