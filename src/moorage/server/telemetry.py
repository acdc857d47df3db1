"""Log lines, metrics and traces of the server."""

from __future__ import annotations

import logging
import sys
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

import msgspec
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from moorage.http.calls import current_request_id
from moorage.http.exchanges import Exchange
from moorage.server.settings import Settings, SettingsError

_access_log = logging.getLogger("moorage.access")


LabelledValues = Mapping[tuple[str, ...], float]
"""The value of a metric for each combination of its labels."""


class JsonLines(logging.Formatter):
    """Formats each record as one JSON object per line. `extra={"fields": {...}}` adds searchable fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := current_request_id.get():
            line["request_id"] = request_id
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["traceback"] = "".join(traceback.format_exception(*record.exc_info))
        return msgspec.json.encode(line, enc_hook=str).decode()


def start_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Write logs to standard error. Standard output is for the output of the command."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(settings.log_level.upper())
    _access_log.setLevel("INFO" if settings.access_log else "CRITICAL")


def log_access(exchange: Exchange) -> None:
    _access_log.info(
        "%s %s",
        exchange.verb,
        _loggable_path(exchange),
        extra={
            "fields": {
                "operation": _operation(exchange),
                "status": exchange.status,
                "ms": round(exchange.seconds * 1000, 3),
                "caller": exchange.caller.name if exchange.caller else None,
            }
        },
    )


def _loggable_path(exchange: Exchange) -> str:
    """The path, or its pattern if the path is a credential: an activation link, or the URL of a shared file."""
    route = exchange.route
    if route is not None and route.public and route.pattern.names:
        return route.pattern.path
    return exchange.path.decode("ascii", "backslashreplace")


def observing(metrics: Metrics, settings: Settings, *more: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
    """The function that the app calls after every answer."""
    observers = (metrics.observe, *more, *((log_access,) if settings.access_log else ()))

    def observe(exchange: Exchange) -> None:
        for each in observers:
            each(exchange)

    return observe


_EXPORT_SECONDS = 2

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class _Latency:
    """Counts per latency bucket. Only the event loop writes, so the hot path needs no lock."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(_BOUNDS) + 1)
        self.total = 0.0

    def buckets(self) -> list[tuple[str, float]]:
        running, rows = 0, []
        for bound, count in zip((*_BOUNDS, "+Inf"), self.counts, strict=True):
            running += count
            rows.append((str(bound), float(running)))
        return rows


class Metrics:
    """The Prometheus metrics of this server."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._latencies: dict[tuple[str, str, int], _Latency] = {}
        self._counters: list[tuple[str, str, Callable[[], float]]] = []
        self._labelled: list[tuple[str, str, Sequence[str], Callable[[], LabelledValues]]] = []

    def observe(self, exchange: Exchange) -> None:
        route = exchange.route
        name = (route.api, route.operation, exchange.status) if route else ("none", "none", exchange.status)
        latency = self._latencies.get(name)
        if latency is None:
            latency = self._latencies[name] = _Latency()
        latency.counts[bisect_left(_BOUNDS, exchange.seconds)] += 1
        latency.total += exchange.seconds

    def gauge(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a gauge whose value is computed when the metrics are read."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def counter(self, name: str, description: str, value: Callable[[], float]) -> None:
        """Add a counter, whose value is computed when the metrics are read."""
        self._counters.append((name, description, value))

    def labelled_gauge(
        self, name: str, description: str, labels: Sequence[str], values: Callable[[], LabelledValues]
    ) -> None:
        """Add a gauge with labels, whose values are computed when the metrics are read."""
        self._labelled.append((name, description, labels, values))

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily("moorage_requests", "Requests answered.", labels=["api", "operation", "status"])
        seconds = HistogramMetricFamily(
            "moorage_request_seconds",
            "Time from the first byte to the answer.",
            labels=["api", "operation", "status"],
        )
        for (api, operation, status), latency in self._latencies.items():
            labels = [api, operation, str(status)]
            requests.add_metric(labels, sum(latency.counts))
            seconds.add_metric(labels, latency.buckets(), latency.total)
        yield requests
        yield seconds
        for name, description, value in self._counters:
            yield CounterMetricFamily(name, description, value=value())
        for name, description, label_names, values in self._labelled:
            gauge = GaugeMetricFamily(name, description, labels=label_names)
            for label_values, number in values().items():
                gauge.add_metric(label_values, number)
            yield gauge

    def render(self) -> bytes:
        return generate_latest(self._registry)


def _operation(exchange: Exchange) -> str:
    return exchange.route.operation if exchange.route else "none"


class Tracing:
    """A span for every request, sent to an OpenTelemetry collector in the background."""

    def __init__(self, endpoint: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError:
            raise SettingsError(
                "otlp_endpoint is set, but OpenTelemetry is not installed: pip install 'moorage[otel]'"
            ) from None
        self._provider = TracerProvider(resource=Resource.create({"service.name": "moorage"}))
        # The timeout covers all retries of an export, so it also limits how long a shutdown waits.
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("moorage")
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def span(self, exchange: Exchange) -> Iterator[None]:
        carrier = {name: value for name in ("traceparent", "tracestate") if (value := exchange.headers.get(name))}
        with self._tracer.start_as_current_span(exchange.verb, context=self._propagator.extract(carrier)) as span:
            yield
            span.update_name(_operation(exchange))
            span.set_attribute("http.request.method", exchange.verb)
            span.set_attribute("http.response.status_code", exchange.status)
            span.set_attribute("moorage.request_id", exchange.request_id)
            if exchange.route is not None:
                span.set_attribute("http.route", exchange.route.pattern.path)

    def stop(self) -> None:
        """Send the remaining spans. A collector that is down must not delay the shutdown."""
        self._provider.shutdown()
