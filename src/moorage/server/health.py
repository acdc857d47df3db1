"""Health checks and metrics."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from moorage.core.errors import Unavailable
from moorage.http import Answer, Api, Call, Example, NoBody, NoQuery
from moorage.server.telemetry import Metrics


class HealthPorts(Protocol):
    """What these routes need from the composition root."""

    metrics: Metrics

    async def ready(self) -> str | None:
        """Why requests cannot be served now, or None if they can."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The process is running."""

    status: Literal["ok"] = "ok"


server = Api(
    "server",
    prefix="",
    file="console.yaml",
    title="Moorage server",
    description="Health and metrics of one server process.",
    tags={"server": "Health and metrics of one server process."},
    defaults={"stage": "ga", "since": "2.1.0-moorage.1"},
    rate_limited=False,
)


@server.get(
    "/healthz",
    operation="checkAlive",
    summary="Check whether the process is alive.",
    answer=Health,
    example=Example(answer={"status": "ok"}),
    public=True,
)
@server.head(
    "/healthz",
    operation="headAlive",
    summary="Check whether the process is alive, without a body.",
    example=Example(),
    public=True,
)
async def check_alive(call: Call[NoBody, NoQuery], ports: HealthPorts) -> Answer:
    """Returns 200 while the process runs, whatever the state of the ledger. Use it for liveness probes."""
    return Answer.json(Health())


@server.get(
    "/readyz",
    operation="checkReady",
    summary="Check whether the server can serve requests.",
    answer=Health,
    errors=(Unavailable,),
    example=Example(answer={"status": "ok"}),
    public=True,
)
@server.head(
    "/readyz",
    operation="headReady",
    summary="Check whether the server can serve requests, without a body.",
    errors=(Unavailable,),
    example=Example(),
    public=True,
)
async def check_ready(call: Call[NoBody, NoQuery], ports: HealthPorts) -> Answer:
    """Returns 503 with the reason while the server starts or stops, or has no ledger. Use it for load balancers."""
    reason = await ports.ready()
    if reason is not None:
        raise Unavailable(reason)
    return Answer.json(Health())


@server.get(
    "/metrics",
    operation="readMetrics",
    summary="Read the metrics of this process.",
    content_types=("text/plain",),
    example=Example(answer='moorage_requests_total{api="console",operation="listCatalogs",status="200"} 3.0\n'),
    public=True,
)
async def read_metrics(call: Call[NoBody, NoQuery], ports: HealthPorts) -> Answer:
    """Returns the metrics in the Prometheus text format."""
    return Answer.text(ports.metrics.render(), "text/plain; version=0.0.4; charset=utf-8")
