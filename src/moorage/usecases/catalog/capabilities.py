"""What this server can do, derived from the routes that it has."""

from __future__ import annotations

import msgspec

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.jobs import COMPACT, JOB_KINDS
from moorage.core.privileges import Privilege
from moorage.usecases.ports import Ports


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The features of this server. A feature is true only if it works."""

    iceberg_rest: bool
    lance_namespace: bool
    credential_vending: bool
    table_compaction: bool


def get_capabilities(ports: Ports, caller: Caller) -> Capabilities:
    require(ports.access, caller, Privilege.BROWSE, ())
    return Capabilities(
        iceberg_rest="loadTable" in ports.operations,
        lance_namespace="CreateTableVersion" in ports.operations,
        # Files on local disk need no credentials, and credentials for object stores are not vended.
        credential_vending=False,
        # The route enqueues a job, but no file is compacted unless workers have a program for it.
        table_compaction="compactTable" in ports.operations and JOB_KINDS[COMPACT].has_program,
    )
