"""What this server can do, read from the operations that it really has."""

from __future__ import annotations

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.jobs import COMPACT, JOB_KINDS
from moorage.core.privileges import Privilege
from moorage.usecases.ports import Ports


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Each is true only when it works on this server today."""

    iceberg_rest: bool
    lance_namespace: bool
    credential_vending: bool
    table_compaction: bool


def look(ports: Ports, caller: Caller) -> Capabilities:
    require(ports.access, caller, Privilege.BROWSE, ())
    return Capabilities(
        iceberg_rest="loadTable" in ports.operations,
        lance_namespace="CreateTableVersion" in ports.operations,
        # Files on local disk need no credentials, and those of a cloud cannot be vended.
        credential_vending=False,
        # A job can be asked for, but a queue that no worker has a program for compacts nothing.
        table_compaction="compactTable" in ports.operations and JOB_KINDS[COMPACT].has_program,
    )
