"""The API accepts exactly the updates and requirements that the format can apply."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from moorage.formats.iceberg import views
from moorage.formats.iceberg.changes import AssertViewUUID, TableRequirement, TableUpdate, ViewUpdate, to_documents
from moorage.formats.iceberg.requirements import CREATE, REQUIREMENTS
from moorage.formats.iceberg.updates import UPDATES
from tests.api.iceberg.lake import Lake, refused, to_table


def tags(union: Any) -> set[str]:
    return {kind.__struct_config__.tag for kind in get_args(union)}


def test_every_update_and_requirement_of_the_format_has_a_wire_struct() -> None:
    assert tags(TableUpdate) == set(UPDATES)
    assert tags(ViewUpdate) == set(views.UPDATES)
    assert tags(TableRequirement) == {CREATE, *REQUIREMENTS}
    assert AssertViewUUID.__struct_config__.tag == "assert-view-uuid"


def test_a_document_is_what_was_sent_without_unknown_properties() -> None:
    sent: list[dict[str, Any]] = [
        {"action": "add-snapshot", "snapshot": {"snapshot-id": 1, "summary": {"operation": "append", "x": "y"}}},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1, "max-ref-age-ms": 5},
        {"action": "remove-snapshots", "snapshot-ids": [1, 2]},
        {"action": "remove-properties", "removals": ["a"]},
    ]
    body = msgspec.json.encode([{**each, "unknown": 1} for each in sent])
    assert to_documents(msgspec.json.decode(body, type=tuple[TableUpdate, ...])) == sent


@pytest.mark.parametrize(
    ("update", "field"),
    [
        ({"action": "set-location"}, "updates[0].location"),
        ({"action": "set-properties", "updates": {"a": 1}}, "updates[0].updates"),
        ({"action": "remove-snapshots", "snapshot-ids": [1, "x"]}, "updates[0].snapshot-ids[1]"),
        ({"action": "set-default-spec", "spec-id": -2}, "updates[0].spec-id"),
        ({"action": "add-view-version", "view-version": {}}, "updates[0].action"),
        ({}, "updates[0].action"),
    ],
)
async def test_an_invalid_update_is_refused_with_the_path_of_the_field(lake: Lake, update: Any, field: str) -> None:
    await lake.create("orders")
    answer = await lake.ask("POST", to_table("orders"), {"requirements": [], "updates": [update]})
    refused(answer, 400, "BadRequestException", field)
