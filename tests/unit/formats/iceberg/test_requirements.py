"""Each kind of requirement, when it holds and when it fails."""

from __future__ import annotations

import pytest

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.requirements import CREATE, REQUIREMENTS, check_requirements, is_creation, require_known
from tests.unit.formats.iceberg.tables import UUID, set_ref, with_snapshots
from tests.unit.formats.iceberg.tables import apply as updated

HOLDING: list[Document] = [
    {"type": "assert-table-uuid", "uuid": UUID.upper()},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
    {"type": "assert-ref-snapshot-id", "ref": "audit", "snapshot-id": None},
    {"type": "assert-ref-snapshot-id", "ref": "audit"},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
]
FAILING: list[Document] = [
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d11"},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    {"type": "assert-ref-snapshot-id", "ref": "audit", "snapshot-id": 1},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
    {"type": "assert-current-schema-id", "current-schema-id": 1},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
    {"type": "assert-default-spec-id", "default-spec-id": 1},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
]


def test_all_eight_requirements_are_known() -> None:
    assert len({CREATE, *REQUIREMENTS}) == 8
    assert {each["type"] for each in HOLDING} == set(REQUIREMENTS)
    for each in FAILING:
        require_known([each])


@pytest.mark.parametrize("requirement", HOLDING, ids=str)
def test_a_requirement_that_holds_is_accepted(requirement: Document) -> None:
    check_requirements(with_snapshots(2), [requirement])


@pytest.mark.parametrize("requirement", FAILING, ids=str)
def test_a_requirement_that_does_not_hold_is_a_conflict(requirement: Document) -> None:
    with pytest.raises(RequirementFailed):
        check_requirements(with_snapshots(2), [HOLDING[0], requirement])


def test_a_tag_is_a_ref_too() -> None:
    tagged = updated(with_snapshots(2), set_ref(1, "v1", "tag"))
    check_requirements(tagged, [{"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": 1}])


@pytest.mark.parametrize("kind", ["assert-sunshine", None, 3, []])
def test_an_unknown_requirement_is_refused(kind: object) -> None:
    with pytest.raises(InvalidInput) as caught:
        require_known([HOLDING[0], {"type": kind}])
    assert caught.value.field == "requirements[1].type"


@pytest.mark.parametrize("kind", sorted(REQUIREMENTS))
def test_a_requirement_with_missing_fields_is_refused(kind: str) -> None:
    with pytest.raises(InvalidInput):
        check_requirements(with_snapshots(1), [{"type": kind}])


def test_assert_create_cannot_be_combined_with_other_requirements() -> None:
    assert is_creation([{"type": CREATE}])
    assert not is_creation(HOLDING)
    with pytest.raises(InvalidInput, match="cannot be combined with other"):
        require_known([{"type": CREATE}, HOLDING[0]])
