"""Lineage as events of OpenLineage, which catalogs and observers of data pipelines understand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from moorage.client.lineage import LineageStep

PRODUCER: Final = "https://github.com/moorage/moorage"
_SPEC: Final = "https://openlineage.io/spec"
_EVENT: Final = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_VERSION: Final = f"{_SPEC}/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"
_COLUMNS: Final = f"{_SPEC}/facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet"
_JOB_TYPE: Final = f"{_SPEC}/facets/2-0-3/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"

Event = dict[str, Any]


def to_events(steps: Iterable[LineageStep], url: str) -> Iterator[Event]:
    """Two events per job, its start and its end, the oldest job first. `url` is the address of the server."""
    by_job: dict[str, list[LineageStep]] = {}
    for step in steps:
        by_job.setdefault(step.job, []).append(step)
    namespace = f"moorage://{urlsplit(url).netloc}"
    for job in sorted(by_job, key=lambda id: by_job[id][0].started_at_ms):
        first = by_job[job][0]
        whole = {
            "run": {"runId": job},
            "job": _job(first, namespace),
            "inputs": _unique(each for step in by_job[job] for each in _inputs(step, namespace)),
            "outputs": [_output(step, namespace) for step in by_job[job]],
            "producer": PRODUCER,
            "schemaURL": _EVENT,
        }
        yield {"eventType": "START", "eventTime": _time(first.started_at_ms), **whole}
        yield {"eventType": "COMPLETE", "eventTime": _time(first.ended_at_ms or first.started_at_ms), **whole}


def _job(step: LineageStep, namespace: str) -> dict[str, Any]:
    name = step.pipeline or f"{step.kind}.{step.output.table}"
    kind = {"processingType": "BATCH", "integration": "MOORAGE", "jobType": step.kind.upper()}
    return {"namespace": namespace, "name": name, "facets": {"jobType": _facet(_JOB_TYPE, **kind)}}


def _inputs(step: LineageStep, namespace: str) -> Iterator[dict[str, Any]]:
    for each in step.inputs:
        if each.table is not None:
            yield _dataset(namespace, each.table, each.until or each.version)
    for source in step.sources:
        space, name = _outside(source)
        yield {"namespace": space, "name": name}


def _output(step: LineageStep, namespace: str) -> dict[str, Any]:
    last = step.output.versions[-1] if step.output.versions else None
    made = _dataset(namespace, step.output.table, last)
    if step.columns:
        fields = {
            column: {"inputFields": [_field(each, namespace) for each in origins]}
            for column, origins in step.columns.items()
        }
        made["facets"] = {**made.get("facets", {}), "columnLineage": _facet(_COLUMNS, fields=fields)}
    return made


def _dataset(namespace: str, name: str, version: str | None) -> dict[str, Any]:
    made: dict[str, Any] = {"namespace": namespace, "name": name}
    if version is not None:
        made["facets"] = {"version": _facet(_VERSION, datasetVersion=version)}
    return made


def _field(origin: str, namespace: str) -> dict[str, str]:
    """A column of a table (`table.column`) or of a source outside the catalog (`location#column`)."""
    if "#" in origin:
        source, field = origin.rsplit("#", 1)
        space, name = _outside(source)
        return {"namespace": space, "name": name, "field": field}
    table, field = origin.rsplit(".", 1)
    return {"namespace": namespace, "name": table, "field": field}


def _outside(source: str) -> tuple[str, str]:
    """The namespace and the name of a location, by the naming rules of OpenLineage."""
    parts = urlsplit(source)
    if parts.scheme in ("", "file"):
        return "file", parts.path
    return f"{parts.scheme.replace('s3a', 's3')}://{parts.netloc}", parts.path.lstrip("/") or "/"


def _facet(schema: str, **values: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": schema, **values}


def _unique(datasets: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for each in datasets:
        found.setdefault((each["namespace"], each["name"], str(each.get("facets"))), each)
    return list(found.values())


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
