"""A Delta commit as one operation of a transaction, which may contain operations of any format."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from moorage.core.callers import Caller
from moorage.core.errors import VersionTaken
from moorage.formats.delta.commit_check import Proposal, require_fields
from moorage.usecases.delta.commits import CommitRequest, prepare_commit
from moorage.usecases.parts import Part
from moorage.usecases.ports import Ports
from moorage.usecases.settling.transact import Operation, Preparer, SameTransaction, independent

_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class DeltaCommit(Operation, frozen=True, kw_only=True, tag="delta_commit"):
    """Ratify a staged commit as the next version of a managed Delta table."""

    table_id: str
    version: _Int64
    timestamp: _Int64
    file_name: str
    file_size: _Int64
    file_modification_timestamp: _Int64


async def _commit(ports: Ports, caller: Caller, op: DeltaCommit, together: SameTransaction) -> Part:
    """Prepare the commit. A replay is reported as a taken version, because the other operations may not be replays.

    To retry a transaction safely, a client sends it with an idempotency key.
    """
    proposal = Proposal(
        version=op.version,
        timestamp_ms=op.timestamp,
        file_name=op.file_name,
        file_size=op.file_size,
        file_modified_ms=op.file_modification_timestamp,
    )
    require_fields(proposal)
    part = await prepare_commit(ports, caller, CommitRequest(table_id=op.table_id, proposal=proposal))
    if part.is_replay:
        raise VersionTaken(
            f"version {op.version} was already ratified from this file; to retry a transaction safely, "
            "send it with the Idempotency-Key of the first attempt",
            field="version",
        )
    return part


OPERATIONS: Final[dict[type[Operation], Preparer]] = {DeltaCommit: independent(_commit)}
