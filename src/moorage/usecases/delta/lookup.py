"""Finds Delta tables by id, as Delta's clients request them, and reads what the ledger stores about them."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, MoorageError
from moorage.core.ids import SecurableId, is_id
from moorage.core.locations import normalize_location
from moorage.core.privileges import Privilege
from moorage.core.securables import Doc, Head, Kind, Securable, TableDoc
from moorage.formats.delta.columns import to_columns
from moorage.formats.delta.contract import TableState
from moorage.formats.delta.properties import shown_properties
from moorage.formats.delta.uniform import is_iceberg_enabled
from moorage.usecases.catalog.addresses import reach_by_id
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

DELTA: Final = "delta"
STATE: Final = "delta"
"""Key in a managed table's details: its `TableState`."""
UNIFORM: Final = "uniform"
"""Key in a managed table's details: the location of its newest Iceberg metadata, as a client reported it."""
UNIFORM_SETTING: Final = "moorage.uniform"
"""Property of a table, namespace or catalog: `iceberg` makes Delta tables readable for Iceberg clients, `off` does not.
The nearest one applies. Delta's own property on the table always does."""
UNIFORM_TIME_ZONE: Final = "moorage.uniform.time-zone"
"""Property of a table, namespace or catalog: the zone of timestamps in partition values that state none."""
LOG: Final = "_delta_log/"
FIRST_COMMIT: Final = f"{LOG}{0:020}.json"
STAGED_FOLDER: Final = f"{LOG}_staged_commits/"
MAX_COMMIT_BYTES: Final = 1024 * 1024 * 1024


def published_path(version: int) -> str:
    """The path of a version's published commit file."""
    return f"{LOG}{version:020}.json"


async def find_table(ports: Ports, caller: Caller, table_id: str | None, privilege: Privilege) -> tuple[Securable, ...]:
    """The live table with an id, and its ancestors."""
    if not table_id:
        raise InvalidInput("table_id is required", field="table_id")
    id = table_id.lower()
    if not is_id(id):
        raise InvalidInput(f"table_id {table_id!r} is not a UUID", field="table_id")
    return await reach_by_id(ports, caller, id, privilege, kind=Kind.TABLE)


async def find_managed(
    ports: Ports, caller: Caller, table_id: str | None, table_uri: str | None, privilege: Privilege
) -> Securable:
    """The live managed Delta table with an id."""
    table = (await find_table(ports, caller, table_id, privilege))[-1]
    if not is_managed(table):
        raise InvalidInput(
            f"'{table.name}' is not a managed Delta table, so the catalog does not ratify its commits", field="table_id"
        )
    if table_uri is not None:
        require_uri(table, table_uri)
    return table


def is_delta(table: Securable) -> bool:
    return table.kind is Kind.TABLE and table.doc.table is not None and table.doc.table.format == DELTA


def is_managed(table: Securable) -> bool:
    """Whether this is a managed Delta table, so that the catalog ratifies its commits."""
    return is_delta(table) and STATE in table.doc.details


def is_uniform(table: Securable, above: tuple[Securable, ...]) -> bool:
    """Whether Iceberg clients can read the table. `above` are its ancestors, outermost first."""
    if is_iceberg_enabled(table.doc.properties):
        return True
    setting = nearest_property(UNIFORM_SETTING, table, above)
    return setting is not None and setting.strip().lower() == "iceberg"


def nearest_property(name: str, table: Securable, above: tuple[Securable, ...]) -> str | None:
    """The property of a table, or of the nearest ancestor that has it. `above` are its ancestors, outermost first."""
    found = (each.doc.properties.get(name) for each in (table, *reversed(above)))
    return next((value for value in found if value is not None), None)


def require_uri(table: Securable, uri: str) -> None:
    """Require the table's location, in any spelling: clients write file:/x for file:///x, with or without a slash."""
    if table.doc.location in (uri, f"{uri}/"):
        return
    try:
        same = normalize_location(uri) == table.doc.location
    except MoorageError:
        same = False
    if not same:
        raise InvalidInput(f"table_uri {uri!r} is not the location of the table", field="table_uri")


def require_head(table: Securable) -> Head:
    if table.head is None:
        raise InvalidInput(f"'{table.name}' has no versions", field="table_id")
    return table.head


def apply_state(doc: Doc, state: TableState, before: TableState | None = None) -> Doc:
    """Return the document of a managed table with the state of its log applied.

    A comment that was set through the catalog stays until a commit changes or removes the description in the log.
    """
    stored = replace(state, row_id_mark=None)  # changes with every append, so the head stores it
    comment, comment_before = state.metadata.description, None if before is None else before.metadata.description
    return replace(
        doc,
        comment=doc.comment if comment == comment_before else comment,
        properties=shown_properties(stored),
        table=TableDoc(format=DELTA, managed=True, columns=to_columns(state.schema, state.metadata.partition_columns)),
        details={**doc.details, STATE: stored.to_details()},
    )


_STATES: Final = CacheKind[tuple[SecurableId, int], TableState]("delta table states", limit=4096)
"""By table and revision; the state of a revision never changes. Parsing a state costs more than a small commit."""


def state_of(ports: Ports, table: Securable) -> TableState:
    """What the log states about a managed table; the row id high-water mark comes from its head."""
    states = ports.local.cache(_STATES)
    state = states.get((table.id, table.revision))
    if state is None:
        state = TableState.from_details(table.doc.details[STATE])
        states.put((table.id, table.revision), state)
    high_water_mark = table.head.row_id_mark if table.head else None
    return state if high_water_mark == state.row_id_mark else replace(state, row_id_mark=high_water_mark)
