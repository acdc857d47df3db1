"""What this server can do, for clients that adapt."""

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
    """Whether optional features are there, read from the routes and jobs that this server really has."""
    return Answer.json(capabilities.look(ports, call.caller))
