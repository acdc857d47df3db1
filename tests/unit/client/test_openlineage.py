"""Lineage as events of OpenLineage. What is required here is what the schema of version 2-0-2 requires."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from moorage.client.lineage import LineageInput, LineageOutput, LineageStep
from moorage.client.openlineage import to_events

JOB = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d11"
INGEST = LineageStep(
    job=JOB,
    kind="ingest",
    started_at_ms=1_794_737_732_278,
    ended_at_ms=1_794_737_733_000,
    output=LineageOutput(table="lake.sea.calls", id="c", versions=("4", "5")),
    inputs=(LineageInput(table="lake.sea.calls", id="c", version="3"), LineageInput()),
    sources=("file:///srv/in", "s3a://bucket/in/a.json"),
    columns={"id": ("file:///srv/in#id",), "port": ("lake.sea.ports.name",)},
)


def require_valid(event: dict[str, Any]) -> None:
    uuid.UUID(event["run"]["runId"])
    datetime.fromisoformat(event["eventTime"])
    assert event["eventType"] in ("START", "COMPLETE")
    assert event["producer"].startswith("https://")
    assert event["schemaURL"].endswith("OpenLineage.json#/$defs/RunEvent")
    for named in (event["job"], *event["inputs"], *event["outputs"]):
        assert named["namespace"]
        assert named["name"]
        for facet in named.get("facets", {}).values():
            assert {"_producer", "_schemaURL"} <= set(facet)


def test_a_job_has_a_start_and_an_end_with_its_datasets() -> None:
    events = list(to_events([INGEST], "http://127.0.0.1:8080"))
    for event in events:
        require_valid(event)
    start, end = events
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["eventTime"] == "2026-11-15T10:15:32.278Z"
    assert end["job"]["name"] == "ingest.lake.sea.calls"
    named = [(each["namespace"], each["name"]) for each in end["inputs"]]
    assert named == [
        ("moorage://127.0.0.1:8080", "lake.sea.calls"),
        ("file", "/srv/in"),
        ("s3://bucket", "in/a.json"),
    ]
    (output,) = end["outputs"]
    assert output["facets"]["version"]["datasetVersion"] == "5"
    fields = output["facets"]["columnLineage"]["fields"]
    assert fields["id"]["inputFields"] == [{"namespace": "file", "name": "/srv/in", "field": "id"}]
    assert fields["port"]["inputFields"][0] | {"namespace": ""} == {
        "namespace": "",
        "name": "lake.sea.ports",
        "field": "name",
    }
