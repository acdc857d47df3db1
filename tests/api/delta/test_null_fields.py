"""A null value is treated as absent, in every optional field of the Delta and Unity request bodies.

Unity's Java client sends null for a required field that its caller did not set, and Delta's HTTP client of 4.0 for
optional fields.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import inspect as shapes

from moorage.http import NoBody
from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import TABLES, UNITY, Body, DeltaClient, ok
from tests.api.routes import EVERY_ROUTE

BODIES = [
    pytest.param(each.route, id=each.route.operation)
    for each in EVERY_ROUTE
    if each.route.api in ("unity", "delta") and each.route.body is not NoBody
]


def _accepts_null(shape: shapes.Type) -> bool:
    match shape:
        case shapes.Metadata():
            return _accepts_null(shape.type)
        case shapes.UnionType():
            return any(_accepts_null(each) for each in shape.types)
        case shapes.AnyType() | shapes.NoneType():
            return True
    return False


def _structs(shape: Any, found: dict[type, shapes.StructType]) -> dict[type, shapes.StructType]:
    if isinstance(shape, shapes.StructType):
        if shape.cls not in found:
            found[shape.cls] = shape
            for field in shape.fields:
                _structs(field.type, found)
    else:
        for name in ("type", "item_type", "key_type", "value_type"):
            if isinstance(inner := getattr(shape, name, None), shapes.Type):
                _structs(inner, found)
        for inner in getattr(shape, "types", ()):
            _structs(inner, found)
    return found


@pytest.mark.parametrize("route", BODIES)
def test_every_optional_field_accepts_null(route: Any) -> None:
    refused = [
        f"{kind.__name__}.{field.encode_name}"
        for kind, shape in _structs(shapes.type_info(route.body), {}).items()
        for field in shape.fields
        if not field.required and not _accepts_null(field.type)
    ]
    assert not refused


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"properties": None}, id="properties"),
        pytest.param({"properties": ...}, id="no properties"),
        pytest.param({"partition-columns": None, "comment": None, "uniform": None}, id="the optional ones"),
        pytest.param({"domain-metadata": None}, id="domains"),
        pytest.param({"domain-metadata": {"delta.clustering": None, "delta.rowTracking": None}}, id="each domain"),
        pytest.param(
            {"protocol": {"min-reader-version": 1, "min-writer-version": 2, "reader-features": None}}, id="features"
        ),
    ],
)
async def test_an_external_table_is_created_with_nulls(v1: DeltaClient, changes: Body) -> None:
    staged = await v1.stage("e")
    body = v1.v1_body(staged) | {"table-type": "EXTERNAL", "location": "file:///lakes/e", **changes}
    given = {key: value for key, value in body.items() if value is not ...}
    assert ok(await v1.http.post(TABLES, json=given))["metadata"]["table-type"] == "EXTERNAL"


@pytest.mark.parametrize(
    "action",
    [
        {"action": "set-properties", "updates": None},
        {"action": "set-properties"},
        {"action": "remove-properties", "removals": None},
        {"action": "remove-domain-metadata", "domains": None},
    ],
)
async def test_an_action_without_entries_changes_nothing(v1: DeltaClient, action: Body) -> None:
    table = await v1.make()
    before = ok(await v1.load())["metadata"]
    info = table.stage(1, write.add())
    assert ok(await v1.commit(table, info, actions=[action]))["metadata"]["properties"] == before["properties"]


async def test_null_requirements_and_updates_are_refused_by_name(v1: DeltaClient) -> None:
    table = await v1.make()
    for body, field in (
        ({"requirements": None, "updates": [{"action": "set-table-comment", "comment": "c"}]}, "assert-table-uuid"),
        ({"requirements": [{"type": "assert-table-uuid", "uuid": table.id}], "updates": None}, "updates is empty"),
    ):
        answer = await v1.http.post(f"{TABLES}/t", json=body)
        assert answer.status_code == 400
        assert field in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "histogram",
    [None, {}, {"sorted-bin-boundaries": None, "file-counts": None, "total-bytes": None, "commit-version": 0}],
)
async def test_a_report_may_have_an_empty_histogram(v1: DeltaClient, histogram: Body | None) -> None:
    table = await v1.make()
    report = {"commit-report": {"num-files-added": None, "file-size-histogram": histogram}}
    for body in ({"report": report}, {"report": {"commit-report": None}}, {"report": None}):
        answer = await v1.http.post(f"{TABLES}/t/metrics", json={"table-id": table.id, **body})
        assert answer.status_code == 204, answer.text


async def test_unity_bodies_with_nulls_are_accepted(spec: DeltaClient) -> None:
    """Each optional field of a table, a commit and a report as null."""
    staged = await spec.stage()
    staged.write_first()
    nulls = {"columns": None, "comment": None, "view_definition": None, "view_dependencies": None}
    ok(await spec.create(staged, **nulls))
    info = staged.stage(1, write.add())
    commit = {"table_id": staged.id, "table_uri": staged.location, "commit_info": info}
    others = {"latest_published_version": None, "latest_backfilled_version": None, "metadata": None, "uniform": None}
    ok(await spec.http.post(f"{UNITY}/delta/commit", content=msgspec.json.encode(commit | others)))
    report = {"commit_version": 1, "file_size_histogram": {"file_counts": None}}
    metrics = {"table_id": staged.id, "table_uri": staged.location, "report": {"commit_report": report}}
    ok(await spec.http.post(f"{UNITY}/delta/metrics", json=metrics))
