"""The metadata of a view: versions of its query, each in one or more SQL dialects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from moorage.core.errors import InvalidInput, RequirementFailed
from moorage.formats.iceberg import updates as of_tables
from moorage.formats.iceberg.documents import (
    Document,
    document_of,
    documents_of,
    id_of,
    number_of,
    properties_of,
    text_of,
    texts_of,
    with_id,
    without,
    without_nulls,
)
from moorage.formats.iceberg.edits import Edit
from moorage.formats.iceberg.schemas import is_same_schema, require_schema
from moorage.formats.iceberg.table_uuids import require_uuid
from moorage.formats.iceberg.updates import LAST_ADDED, apply_each

_FORMAT = 1
_NEWEST_TABLE_FORMAT = 3
"""Views are independent of table format versions, so their columns may have every type."""
_HISTORY_LENGTH = "version.history.num-entries"
_KEPT_VERSIONS = 10
_MAY_LOSE_DIALECTS = "replace.drop-dialect.allowed"
_COMPARED = ("summary", "representations", "default-catalog", "default-namespace", "schema-id")


def new_view(
    *, uuid: str, location: str, schema: Document, version: Document, properties: Mapping[str, str], now_ms: int
) -> Document:
    """The first metadata of a view. The version uses the schema of the same request."""
    empty: Document = {
        "view-uuid": uuid,
        "format-version": _FORMAT,
        "location": location.rstrip("/"),
        "schemas": [],
        "versions": [],
        "version-log": [],
        "properties": dict(properties),
    }
    schema, version = without_nulls([schema, version])
    edit = add_schema(Edit.of(empty, now_ms=now_ms), {"schema": schema})
    edit = add_view_version(edit, {"view-version": {**version, "schema-id": LAST_ADDED}})
    return _finish(set_current_view_version(edit, {"view-version-id": LAST_ADDED}), before=None)


def updated_view(view: Document, updates: Sequence[Document], *, now_ms: int) -> Document:
    """The view after the updates of one request; the identical object if they change nothing."""
    edit = apply_each(Edit.of(view, now_ms=now_ms), updates, UPDATES)
    return view if edit.doc == view else _finish(edit, before=view)


def assign_uuid(edit: Edit, update: Document) -> Edit:
    if require_uuid(update, "uuid").lower() != edit.doc["view-uuid"].lower():
        raise InvalidInput("the uuid of a view cannot be changed", field="uuid")
    return edit


def upgrade_format_version(edit: Edit, update: Document) -> Edit:
    if number_of(update, "format-version") != _FORMAT:
        raise InvalidInput(f"a view must have format version {_FORMAT}", field="format-version")
    return edit


def add_schema(edit: Edit, update: Document) -> Edit:
    schema = document_of(update, "schema")
    require_schema(schema, format_version=_NEWEST_TABLE_FORMAT)
    for known in edit.doc["schemas"]:
        if is_same_schema(known, schema):
            return edit.with_state(schema_id=known["schema-id"])
    id = max((known["schema-id"] for known in edit.doc["schemas"]), default=-1) + 1
    named = {"type": "struct", "schema-id": id, **without(schema, "type", "schema-id")}
    return edit.put(schemas=[*edit.doc["schemas"], named]).with_state(schema_id=id)


def add_view_version(edit: Edit, update: Document) -> Edit:
    version = _parse_version(document_of(update, "view-version"))
    if version["schema-id"] == LAST_ADDED:
        if edit.schema_id is None:
            raise InvalidInput("schema-id is -1, the last one added, but this request adds none", field="schema-id")
        version = {**version, "schema-id": edit.schema_id}
    if with_id(edit.doc["schemas"], "schema-id", version["schema-id"]) is None:
        raise InvalidInput(f"the view has no schema {version['schema-id']}", field="view-version.schema-id")
    for known in edit.doc["versions"]:
        if all(known.get(key) == version.get(key) for key in _COMPARED):
            return edit.with_state(view_version_id=known["version-id"])
    highest = max((known["version-id"] for known in edit.doc["versions"]), default=0)
    id = max(version["version-id"], highest + 1)
    named = {**version, "version-id": id}
    return edit.put(versions=[*edit.doc["versions"], named]).with_state(view_version_id=id, added=edit.added | {id})


def _parse_version(version: Document) -> Document:
    number_of(version, "timestamp-ms")
    for id in ("version-id", "schema-id"):
        id_of(version, id)
    properties_of(version, "summary")
    texts_of(version, "default-namespace")
    if "default-catalog" in version:
        text_of(version, "default-catalog")
    dialects = set[str]()
    for representation in documents_of(version, "representations"):
        if representation.get("type") != "sql":
            raise InvalidInput(
                "the type of a view representation must be sql", field="view-version.representations.type"
            )
        text_of(representation, "sql")
        dialect = text_of(representation, "dialect").lower()
        if dialect in dialects:
            raise InvalidInput(
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}",
                field="view-version.representations",
            )
        dialects.add(dialect)
    if not dialects:
        raise InvalidInput("a view must have at least one representation", field="view-version.representations")
    return version


def set_current_view_version(edit: Edit, update: Document) -> Edit:
    id = number_of(update, "view-version-id")
    if id == LAST_ADDED:
        if edit.view_version_id is None:
            raise InvalidInput(
                "view-version-id is -1, the last one added, but this request adds none", field="view-version-id"
            )
        id = edit.view_version_id
    version = with_id(edit.doc["versions"], "version-id", id)
    if version is None:
        raise InvalidInput(f"the view has no version {id}", field="view-version-id")
    if edit.doc.get("current-version-id") == id:
        return edit
    entry = {"timestamp-ms": version["timestamp-ms"] if id in edit.added else edit.now_ms, "version-id": id}
    return edit.put(current_version_id=id, version_log=[*edit.doc["version-log"], entry])


UPDATES: dict[str, Callable[[Edit, Document], Edit]] = {
    "assign-uuid": assign_uuid,
    "upgrade-format-version": upgrade_format_version,
    "add-schema": add_schema,
    "set-location": of_tables.set_location,
    "set-properties": of_tables.set_properties,
    "remove-properties": of_tables.remove_properties,
    "add-view-version": add_view_version,
    "set-current-view-version": set_current_view_version,
}


def _finish(edit: Edit, *, before: Document | None) -> Document:
    view = edit.doc
    if before is not None and view["properties"].get(_MAY_LOSE_DIALECTS, "").lower() != "true":
        lost = _dialects(before) - _dialects(view)
        if lost:
            raise InvalidInput(
                f"Cannot replace view due to loss of view dialects ({_MAY_LOSE_DIALECTS}=false): {sorted(lost)}",
                field="updates",
            )
    edit = edit.put(version_log=_with_one_entry(before["version-log"] if before else (), view["version-log"]))
    requested = view["properties"].get(_HISTORY_LENGTH, str(_KEPT_VERSIONS))
    if not requested.isdecimal() or len(requested) > 9 or int(requested) < 1:
        raise InvalidInput(f"{_HISTORY_LENGTH} must be positive but was {requested}", field=_HISTORY_LENGTH)
    return _without_old_versions(edit, keep=max(int(requested), len(edit.added | {view["current-version-id"]})))


def _with_one_entry(before: Sequence[Document], log: list[Document]) -> list[Document]:
    """The version log, without versions that were current only within this request."""
    return log if len(log) <= len(before) + 1 else [*before, log[-1]]


def _without_old_versions(edit: Edit, *, keep: int) -> Document:
    """Keep only the newest versions and the current one. The log begins after the last removed version."""
    view, current = edit.doc, edit.doc["current-version-id"]
    if len(view["versions"]) <= keep:
        return view
    others = sorted((each["version-id"] for each in view["versions"] if each["version-id"] != current), reverse=True)
    kept = {current, *others[: keep - 1]}
    log: list[Document] = []
    for entry in view["version-log"]:
        log = [*log, entry] if entry["version-id"] in kept else []
    versions = [each for each in view["versions"] if each["version-id"] in kept]
    return {**view, "versions": versions, "version-log": log}


def _dialects(view: Document) -> set[str]:
    return {representation["dialect"].lower() for representation in current_version(view)["representations"]}


def current_version(view: Document) -> Document:
    found = with_id(view["versions"], "version-id", view["current-version-id"])
    if found is None:
        raise InvalidInput("the view has no current version", field="current-version-id")
    return found


def view_schema(view: Document) -> Document:
    """The schema of the current version."""
    found = with_id(view["schemas"], "schema-id", current_version(view)["schema-id"])
    if found is None:
        raise InvalidInput("the view's current version has no schema", field="schemas")
    return found


def check_view_requirements(view: Document, requirements: Sequence[Document]) -> None:
    """Raise RequirementFailed unless the view has the required UUID."""
    for index, requirement in enumerate(requirements):
        where = f"requirements[{index}]"
        if requirement.get("type") != "assert-view-uuid":
            raise InvalidInput(f"{where}: unknown requirement {requirement.get('type')!r}", field=f"{where}.type")
        wanted, found = text_of(requirement, "uuid"), view["view-uuid"]
        if wanted.lower() != found.lower():
            raise RequirementFailed(f"Requirement failed: view UUID does not match: expected {wanted} != {found}")


def parse_view(raw: Document) -> Document:
    """Metadata from a file that another catalog wrote."""
    if number_of(raw, "format-version") != _FORMAT:
        raise InvalidInput(f"a view must have format version {_FORMAT}", field="format-version")
    require_uuid(raw, "view-uuid")
    text_of(raw, "location")
    view: Document = {"properties": {}, **without_nulls(raw)}
    properties_of(view, "properties")
    view["schemas"] = [{"type": "struct", **schema} for schema in documents_of(view, "schemas")]
    for schema in view["schemas"]:
        id_of(schema, "schema-id")
        require_schema(schema, format_version=_NEWEST_TABLE_FORMAT)
    for version in documents_of(view, "versions"):
        _parse_version(version)
    for entry in documents_of(view, "version-log"):
        id_of(entry, "version-id")
        number_of(entry, "timestamp-ms")
    number_of(view, "current-version-id")
    view_schema(view)
    return view
