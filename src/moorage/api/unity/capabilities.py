"""What this server can do, from the code's own knowledge."""

from __future__ import annotations

import msgspec

from moorage.access.port import require
from moorage.api.unity.api import SINCE, unity
from moorage.core.privileges import Privilege
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.ports import Ports


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """Each is true only when it works on this server today."""

    iceberg_rest: bool
    credential_vending: bool
    table_compaction: bool


@unity.get(
    "/capabilities",
    operation="getCapabilities",
    summary="List server capabilities and feature flags.",
    stage="public_preview",
    since=SINCE,
    tags=("capabilities",),
    answer=Capabilities,
    example=Example(answer={"iceberg_rest": False, "credential_vending": False, "table_compaction": False}),
)
async def get_capabilities(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Whether optional features are there, read from the routes and jobs that this server really has."""
    require(ports.access, call.caller, Privilege.BROWSE, ())
    return Answer.json(
        Capabilities(
            iceberg_rest="loadTable" in ports.operations,
            credential_vending="generateTemporaryTableCredentials" in ports.operations,
            table_compaction="compactTable" in ports.operations,
        )
    )
