"""Requirements of a commit: plain data, and one pure function for each kind.

Each requirement is checked against the metadata that the commit replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.formats.iceberg.documents import Document, number_of, number_or_none, text_of

CREATE = "assert-create"


def _table_uuid(table: Document, requirement: Document) -> None:
    expected, found = text_of(requirement, "uuid"), table["table-uuid"]
    _require(found.lower() == expected.lower(), f"UUID does not match: expected {expected} != {found}")


def _ref_snapshot_id(table: Document, requirement: Document) -> None:
    name, expected = text_of(requirement, "ref"), number_or_none(requirement, "snapshot-id")
    ref = table["refs"].get(name)
    if ref is None:
        _require(expected is None, f"branch or tag '{name}' is missing, expected at {expected}")
    else:
        found = ref["snapshot-id"]
        _require(expected is not None, f"{ref['type']} '{name}' was created concurrently")
        _require(found == expected, f"{ref['type']} '{name}' has changed: expected id {expected} != {found}")


def _number(field: str, key: str, what: str) -> Callable[[Document, Document], None]:
    def check(table: Document, requirement: Document) -> None:
        expected, found = number_of(requirement, key), table.get(field)
        _require(found == expected, f"{what} changed: expected {expected} != {found}")

    return check


REQUIREMENTS: dict[str, Callable[[Document, Document], None]] = {
    "assert-table-uuid": _table_uuid,
    "assert-ref-snapshot-id": _ref_snapshot_id,
    "assert-last-assigned-field-id": _number("last-column-id", "last-assigned-field-id", "last assigned field id"),
    "assert-current-schema-id": _number("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": _number(
        "last-partition-id", "last-assigned-partition-id", "last assigned partition id"
    ),
    "assert-default-spec-id": _number("default-spec-id", "default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": _number("default-sort-order-id", "default-sort-order-id", "default sort order"),
}


def require_known(requirements: Sequence[Document]) -> None:
    """Refuse requirements of unknown kinds, and other requirements beside assert-create."""
    for index, requirement in enumerate(requirements):
        kind = requirement.get("type")
        if kind != CREATE and (not isinstance(kind, str) or kind not in REQUIREMENTS):
            where = f"requirements[{index}]"
            raise InvalidInput(f"{where}: unknown requirement {kind!r}", field=f"{where}.type")
    if is_creation(requirements) and any(requirement["type"] != CREATE for requirement in requirements):
        raise InvalidInput("assert-create cannot be combined with other requirements", field="requirements")


def is_creation(requirements: Sequence[Document]) -> bool:
    """Whether the commit creates its table."""
    return any(requirement.get("type") == CREATE for requirement in requirements)


def check_requirements(table: Document, requirements: Sequence[Document]) -> None:
    """Raise RequirementFailed unless the table meets every requirement."""
    for requirement in requirements:
        if requirement.get("type") == CREATE:
            raise RequirementFailed("Requirement failed: table already exists", field="requirements")
        REQUIREMENTS[requirement["type"]](table, requirement)


def _require(holds: bool, why: str) -> None:  # noqa: FBT001 - it reads as a sentence
    if not holds:
        raise RequirementFailed(f"Requirement failed: {why}", field="requirements")
