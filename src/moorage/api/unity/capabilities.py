"""Optional features of this server, for clients that adapt to them."""

from __future__ import annotations

from moorage.api.unity.api import unity
from moorage.http import Answer, Call, Example, NoBody, NoQuery
from moorage.usecases.catalog import capabilities
from moorage.usecases.catalog.capabilities import Capabilities
from moorage.usecases.ports import Ports


@unity.get(
    "/capabilities",
    operation="getCapabilities",
    summary="List server capabilities and feature flags.",
    stage="public_preview",
    tags=("capabilities",),
    answer=Capabilities,
    example=Example(
        answer={
            "iceberg_rest": True,
            "lance_namespace": True,
            "credential_vending": False,
            "table_compaction": False,
        }
    ),
)
async def get_capabilities(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Return which optional features this server has. They are derived from its actual routes and jobs."""
    return Answer.json(capabilities.get_capabilities(ports, call.caller))
