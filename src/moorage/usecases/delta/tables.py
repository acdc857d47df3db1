"""Managed Delta tables: the catalog reserves a location, the client writes the first commit, the catalog checks it."""

from __future__ import annotations

import msgspec

from moorage.core.callers import Caller
from moorage.core.entries import Commit, Create, Done, Live, NameFree, RevisionIs
from moorage.core.errors import InvalidInput, NameTaken, TableNotFound
from moorage.core.ids import SecurableId, is_id
from moorage.core.locations import normalize_location
from moorage.core.names import require_name
from moorage.core.securables import MAIN, Doc, Kind, Securable
from moorage.formats.delta.contract import SPEC_TERMS, TableState, Terms
from moorage.formats.delta.paths import path_check_for
from moorage.formats.delta.stated_metadata import StatedMetadata, require_agreement, require_first_properties
from moorage.formats.delta.uniform import IcebergBlock, require_uniform
from moorage.formats.delta.whole_check import Checked, check_first
from moorage.usecases.catalog import credentials
from moorage.usecases.catalog.addresses import Address, find_by_id, reach_parent
from moorage.usecases.catalog.credentials import FileAccess
from moorage.usecases.catalog.staging import id_from_location, prepare_staging_table, require_staged_by, turn_into_table
from moorage.usecases.delta.claims import require_conversion
from moorage.usecases.delta.compute import check
from moorage.usecases.delta.families import require_creation_enabled
from moorage.usecases.delta.lookup import (
    FIRST_COMMIT,
    MAX_COMMIT_BYTES,
    UNIFORM,
    apply_state,
    is_managed,
    require_head,
)
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one


class NewTable(msgspec.Struct, frozen=True, kw_only=True):
    """A request to create a managed table from its staging table."""

    address: Address
    location: str
    table_id: str | None
    """As the request's properties state it."""
    stated: StatedMetadata
    comment: str | None = None
    terms: Terms = SPEC_TERMS
    first_properties: dict[str, str] | None = None
    """All properties, if the API family requires that they describe version 0."""
    timestamp_ms: int | None = None
    """Of version 0, if the API family states it in a field of its own."""
    uniform: IcebergBlock | None = None
    has_uniform: bool = False
    details: dict[str, object] = {}


async def stage_table(ports: Ports, errand: Errand, address: Address) -> Securable:
    """Reserve an id and a location for a table that the client will write."""

    async def prepare(caller: Caller) -> Part:
        require_creation_enabled(ports.managed_tables)
        require_name(address.path[-1])
        above, holder = await reach_parent(ports, caller, address)
        if holder is not None:
            raise NameTaken(
                f"{holder.kind} '{address}' already exists", field="name", name=str(address), kind=str(holder.kind)
            )
        return prepare_staging_table(ports, caller, above, address.path[-1])

    return await settle_one(ports, errand, prepare)


async def staging_access(ports: Ports, caller: Caller, id: str) -> FileAccess:
    """Access to a staging table, for the caller that created it. A created table is not a staging table."""
    chain = (await ports.ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
    absent = TableNotFound(f"no staging table has the id '{id}'", id=id)
    if not chain or chain[-1].kind is not Kind.STAGING_TABLE:
        raise absent
    try:
        return await credentials.for_table(ports, caller, id, write=True)
    except TableNotFound:  # a caller that may not learn of it
        raise absent from None


async def create_managed_table(ports: Ports, errand: Errand, new: NewTable) -> Securable:
    """Create a table from its staging table. The first commit at its location becomes version 0."""
    created = await settle_one(ports, errand, lambda caller: _prepare_managed(ports, caller, new))
    # Version 0 had its final name before it was ratified.
    await ports.ledger.record_published(created.id, MAIN, 0, by_client=True)
    ports.local.unconverted.add(created.id)
    return created


async def _prepare_managed(ports: Ports, caller: Caller, new: NewTable) -> Part:
    require_creation_enabled(ports.managed_tables)
    require_name(new.address.path[-1])
    above, holder = await reach_parent(ports, caller, new.address)
    if holder is not None:
        if _is_retry(holder, caller, new):
            return Part(done=Done(ids=(holder.id,), versions=(0,)), before=holder)
        raise NameTaken(
            f"{holder.kind} '{new.address}' already exists", field="name", name=str(new.address), kind=str(holder.kind)
        )
    staging_table = await _find_staging_table(ports, caller, above, new)
    location = staging_table.doc.location or ""
    checked, data = await _read_first(ports, location, staging_table.id, new.terms)
    if new.uniform is not None:
        await require_conversion(ports, path_check_for(location), location, new.uniform, 0, data=data)
    create = Create(
        id=staging_table.id,
        kind=Kind.TABLE,
        parent=above[-1].id,
        name=new.address.path[-1],
        owner=caller.id,
        doc=_first_doc(new, checked.state, location),
        place=location,
    )
    return Part(
        expects=(
            RevisionIs(staging_table.id, staging_table.revision),
            Live(above[-1].id),
            NameFree(above[-1].id, new.address.shelf, new.address.key),
        ),
        changes=(*turn_into_table(staging_table, create), _first_version(staging_table.id, checked, len(data))),
        done=Done(ids=(staging_table.id,), versions=(0,)),
    )


def _is_retry(table: Securable, caller: Caller, new: NewTable) -> bool:
    """Whether an earlier attempt of this request created the table: a location is reserved once, for one caller.

    Delta's clients retry a creation whose response was lost. A table with further versions is not such a retry, because
    a client has received the response.
    """
    is_theirs = is_managed(table) and table.id == new.table_id and table.created_by == caller.id
    return is_theirs and table.doc.location == normalize_location(new.location) and require_head(table).version == 0


async def _read_first(ports: Ports, location: str, table_id: str, terms: Terms) -> tuple[Checked, bytes]:
    """Read and check the first commit that the client wrote, make it durable, and return it with its bytes."""
    data = await ports.storage.read(location, FIRST_COMMIT, limit=MAX_COMMIT_BYTES)
    if data is None:
        raise InvalidInput(
            f"{FIRST_COMMIT} does not exist at the table's location; write it first", field="storage_location"
        )
    checked = await check(
        ports, check_first, data, now_ms=ports.now_ms(), location=location, table_id=table_id, terms=terms
    )
    await ports.storage.make_durable(location, FIRST_COMMIT)
    return checked, data


def _first_doc(new: NewTable, state: TableState, location: str) -> Doc:
    """The document of the new table; InvalidInput if the request contradicts the first commit."""
    require_agreement(new.stated, state)
    if new.first_properties is not None:
        require_first_properties(new.first_properties, state)
    if new.timestamp_ms not in (None, state.last_commit_timestamp):
        raise InvalidInput(
            f"last-commit-timestamp-ms is {new.timestamp_ms}, but the first commit has {state.last_commit_timestamp}",
            field="last-commit-timestamp-ms",
        )
    details = dict(new.details)
    if new.has_uniform:
        block = require_uniform(
            new.uniform, version=0, configuration=state.configuration, inside=path_check_for(location)
        )
        details[UNIFORM] = msgspec.to_builtins(block)
    return apply_state(Doc(comment=new.comment, location=location, details=details), state)


async def _find_staging_table(ports: Ports, caller: Caller, above: tuple[Securable, ...], new: NewTable) -> Securable:
    """The staging table at the requested location. The properties of the request must contain its id.

    The table must be created in the schema of its staging table, because that schema decided the storage root.
    """
    location = normalize_location(new.location)
    chain = await find_by_id(ports.ledger, id_from_location(location))
    if not chain or chain[-1].doc.location != location or chain[-1].parent != above[-1].id:
        raise TableNotFound(
            f"no staging table exists at '{new.location}' for '{new.address.parent}'; create it first",
            location=new.location,
        )
    staging_table = chain[-1]
    if staging_table.kind is not Kind.STAGING_TABLE:
        raise InvalidInput(f"the table at '{new.location}' was already created", field="storage_location")
    require_staged_by(staging_table, caller)
    if new.table_id != staging_table.id:
        raise InvalidInput(
            f"io.unitycatalog.tableId must be '{staging_table.id}', the id of the staging table, not {new.table_id!r}",
            field="properties.io.unitycatalog.tableId",
        )
    return staging_table


def _first_version(id: SecurableId, checked: Checked, size: int) -> Commit:
    return Commit(
        table=id,
        version=0,
        operation=checked.kind.value,
        file=FIRST_COMMIT.rpartition("/")[2],
        size=size,
        timestamp_ms=checked.state.last_commit_timestamp,
        row_id_mark=checked.state.row_id_mark,
    )
