"""Finding Delta tables, by their ids as Delta's clients do, and what the ledger knows of them."""

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
from moorage.usecases.catalog.addresses import reach_by_id
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

DELTA: Final = "delta"
STATE: Final = "delta"
"""In a managed table's details: its `TableState`."""
UNIFORM: Final = "uniform"
"""In its details too: where its newest Iceberg metadata lies, as a client told."""
LOG: Final = "_delta_log/"
FIRST_COMMIT: Final = f"{LOG}{0:020}.json"
STAGED_FOLDER: Final = f"{LOG}_staged_commits/"
LARGEST_COMMIT: Final = 1024 * 1024 * 1024
LARGE_COMMIT: Final = 256 * 1024
"""Reading a commit of this size takes long enough for other callers to notice."""


def published_name(version: int) -> str:
    """Where a version lies once it is published."""
    return f"{LOG}{version:020}.json"


async def find_table(ports: Ports, caller: Caller, table_id: str | None, privilege: Privilege) -> tuple[Securable, ...]:
    """The live table of an id with its ancestors."""
    if not table_id:
        raise InvalidInput("table_id is required", field="table_id")
    id = table_id.lower()
    if not is_id(id):
        raise InvalidInput(f"table_id {table_id!r} is no UUID", field="table_id")
    return await reach_by_id(ports, caller, id, privilege, kind=Kind.TABLE)


async def find_managed(
    ports: Ports, caller: Caller, table_id: str | None, table_uri: str | None, privilege: Privilege
) -> Securable:
    """The same for a table whose commits are ours to ratify."""
    table = (await find_table(ports, caller, table_id, privilege))[-1]
    if not is_managed(table):
        raise InvalidInput(f"'{table.name}' is no managed Delta table; its commits are not ours", field="table_id")
    if table_uri is not None:
        require_uri(table, table_uri)
    return table


def is_delta(table: Securable) -> bool:
    return table.kind is Kind.TABLE and table.doc.table is not None and table.doc.table.format == DELTA


def is_managed(table: Securable) -> bool:
    """Whether its commits are ours to ratify."""
    return is_delta(table) and STATE in table.doc.details


def require_uri(table: Securable, uri: str) -> None:
    """Two spellings of a place are still one: clients write file:/x for file:///x, with and without a slash."""
    if table.doc.location in (uri, f"{uri}/"):
        return
    try:
        same = normalize_location(uri) == table.doc.location
    except MoorageError:
        same = False
    if not same:
        raise InvalidInput(f"table_uri {uri!r} is not where the table is", field="table_uri")


def head_of(table: Securable) -> Head:
    if table.head is None:
        raise InvalidInput(f"'{table.name}' has no versions", field="table_id")
    return table.head


def described(doc: Doc, state: TableState, before: TableState | None = None) -> Doc:
    """The record of a managed table as its log describes it.

    A comment can be given past the log, too: it stays until the log says another, or none where it said one.
    """
    still = replace(state, row_id_mark=None)  # moves with every append; the head keeps it
    said, said_before = state.metadata.description, None if before is None else before.metadata.description
    return replace(
        doc,
        comment=doc.comment if said == said_before else said,
        properties=shown_properties(still),
        table=TableDoc(format=DELTA, managed=True, columns=to_columns(state.schema, state.metadata.partition_columns)),
        details={**doc.details, STATE: still.to_details()},
    )


_STATES: Final = CacheKind[tuple[SecurableId, int], TableState]("delta table states", limit=4096)
"""By table and revision, which never change their meaning: parsing a state costs more than a small commit."""


def state_of(ports: Ports, table: Securable) -> TableState:
    """What the log states about a managed table; the row id high-water mark comes from its head."""
    states = ports.local.cache(_STATES)
    state = states.get((table.id, table.revision))
    if state is None:
        state = TableState.from_details(table.doc.details[STATE])
        states.put((table.id, table.revision), state)
    mark = table.head.row_id_mark if table.head else None
    return state if mark == state.row_id_mark else replace(state, row_id_mark=mark)
