"""Managed Delta tables: a place is reserved, the client writes the first commit, the catalog checks it."""

from __future__ import annotations

import asyncio
from functools import partial

import msgspec

from moorage.core.callers import Caller
from moorage.core.entries import Commit, Create, Done, Live, NameFree, RevisionIs
from moorage.core.errors import InvalidInput, NameTaken, TableNotFound
from moorage.core.ids import SecurableId, is_id
from moorage.core.locations import normalize_location
from moorage.core.names import require_name
from moorage.core.securables import MAIN, Doc, Kind, Securable
from moorage.formats.delta.actions import CommitFile
from moorage.formats.delta.commit_check import check_first_commit, version_kind
from moorage.formats.delta.contract import SPEC_TERMS, TableState, Terms, first_state
from moorage.formats.delta.paths import path_check_for
from moorage.formats.delta.stated_metadata import StatedMetadata, require_agreement, require_first_properties
from moorage.formats.delta.uniform import IcebergBlock, require_uniform
from moorage.usecases.catalog import credentials
from moorage.usecases.catalog.addresses import Address, look_by_id, reach_parent
from moorage.usecases.catalog.staging import id_in, require_own, staging, staging_becomes
from moorage.usecases.delta.families import require_making
from moorage.usecases.delta.lookup import (
    FIRST_COMMIT,
    LARGE_COMMIT,
    LARGEST_COMMIT,
    UNIFORM,
    described,
    head_of,
    is_managed,
)
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one


class NewTable(msgspec.Struct, frozen=True, kw_only=True):
    """What a request says of the table that it registers."""

    address: Address
    location: str
    table_id: str | None
    """As the request's properties state it."""
    stated: StatedMetadata
    comment: str | None = None
    terms: Terms = SPEC_TERMS
    first_properties: dict[str, str] | None = None
    """All properties, where the family of the API wants them to describe version 0."""
    timestamp_ms: int | None = None
    """Of version 0, where the family of the API states it beside the properties."""
    uniform: IcebergBlock | None = None
    has_uniform: bool = False
    details: dict[str, object] = {}


async def stage_table(ports: Ports, errand: Errand, address: Address) -> Securable:
    """Reserve an id and a location for a table that its client is about to write."""

    async def prepare(caller: Caller) -> Part:
        require_making(ports.managed_tables)
        require_name(address.path[-1])
        above, holder = await reach_parent(ports, caller, address)
        if holder is not None:
            raise NameTaken(
                f"{holder.kind} '{address}' already exists", field="name", name=str(address), kind=str(holder.kind)
            )
        return staging(ports, caller, above, address.path[-1])

    return await settle_one(ports, errand, prepare)


async def staged_place(ports: Ports, caller: Caller, id: str) -> str:
    """Where a staged table is to be written, for whoever staged it. A finished table is staged no more."""
    chain = (await ports.ledger.lineage(SecurableId(id))).chain if is_id(id) else ()
    if not chain or chain[-1].kind is not Kind.STAGING_TABLE:
        raise TableNotFound(f"no staged table has the id '{id}'", id=id)
    return await credentials.for_table(ports, caller, id, write=True)


async def create_managed_table(ports: Ports, errand: Errand, new: NewTable) -> Securable:
    """Register a staged table, whose first commit lies in its place, as version 0."""
    made = await settle_one(ports, errand, lambda caller: _prepare_managed(ports, caller, new))
    # Version 0 lies under its final name since before it was ratified.
    await ports.ledger.record_published(made.id, MAIN, 0, by_client=True)
    return made


async def _prepare_managed(ports: Ports, caller: Caller, new: NewTable) -> Part:
    require_making(ports.managed_tables)
    require_name(new.address.path[-1])
    above, holder = await reach_parent(ports, caller, new.address)
    if holder is not None:
        if _is_repeated(holder, caller, new):
            return Part(done=Done(ids=(holder.id,), versions=(0,)), before=holder)
        raise NameTaken(
            f"{holder.kind} '{new.address}' already exists", field="name", name=str(new.address), kind=str(holder.kind)
        )
    stage = await _find_stage(ports, caller, above, new)
    location = stage.doc.location or ""
    commit, size = await _read_first(ports, location)
    state = first_state(commit, table_id=stage.id, terms=new.terms)
    create = Create(
        id=stage.id,
        kind=Kind.TABLE,
        parent=above[-1].id,
        name=new.address.path[-1],
        owner=caller.id,
        doc=_first_doc(new, state, location),
        place=location,
    )
    return Part(
        expects=(
            RevisionIs(stage.id, stage.revision),
            Live(above[-1].id),
            NameFree(above[-1].id, new.address.shelf, new.address.key),
        ),
        changes=(*staging_becomes(stage, create), _first_version(stage.id, state, commit, size)),
        done=Done(ids=(stage.id,), versions=(0,)),
    )


def _is_repeated(table: Securable, caller: Caller, new: NewTable) -> bool:
    """Whether this very table was made by an earlier sending: a place is given out once, to one caller, for one table.

    Delta's clients send a creation again whose answer got lost. Once the table has gone on, somebody has got it.
    """
    is_theirs = is_managed(table) and table.id == new.table_id and table.created_by == caller.id
    return is_theirs and table.doc.location == normalize_location(new.location) and head_of(table).version == 0


async def _read_first(ports: Ports, location: str) -> tuple[CommitFile, int]:
    """The commit that the client wrote, found in order and safe from a power cut, and its size."""
    data = await ports.storage.read(location, FIRST_COMMIT, limit=LARGEST_COMMIT)
    if data is None:
        raise InvalidInput(
            f"there is no {FIRST_COMMIT} at the table's location; write it first", field="storage_location"
        )
    check = partial(check_first_commit, data, now_ms=ports.now_ms(), inside=path_check_for(location))
    commit = await asyncio.to_thread(check) if len(data) > LARGE_COMMIT else check()
    await ports.storage.keep(location, FIRST_COMMIT)
    return commit, len(data)


def _first_doc(new: NewTable, state: TableState, location: str) -> Doc:
    """The record of the table, if the request says nothing that its first commit does not."""
    require_agreement(new.stated, state)
    if new.first_properties is not None:
        require_first_properties(new.first_properties, state)
    if new.timestamp_ms not in (None, state.last_commit_timestamp):
        raise InvalidInput(
            f"last-commit-timestamp-ms is {new.timestamp_ms}, the first commit says {state.last_commit_timestamp}",
            field="last-commit-timestamp-ms",
        )
    details = dict(new.details)
    if new.has_uniform:
        block = require_uniform(
            new.uniform, version=0, configuration=state.configuration, inside=path_check_for(location)
        )
        details[UNIFORM] = msgspec.to_builtins(block)
    return described(Doc(comment=new.comment, location=location, details=details), state)


async def _find_stage(ports: Ports, caller: Caller, above: tuple[Securable, ...], new: NewTable) -> Securable:
    """The stage at the location of the request, whose id is in the table's properties.

    Only in the schema that it was staged in: whose storage root the place lies in was decided by that.
    """
    wanted = normalize_location(new.location)
    chain = await look_by_id(ports.ledger, id_in(wanted))
    if not chain or chain[-1].doc.location != wanted or chain[-1].parent != above[-1].id:
        raise TableNotFound(
            f"nothing was staged at '{new.location}' for '{new.address.parent}'; stage the table first",
            location=new.location,
        )
    stage = chain[-1]
    if stage.kind is not Kind.STAGING_TABLE:
        raise InvalidInput(f"the table staged at '{new.location}' was created before", field="storage_location")
    require_own(stage, caller)
    if new.table_id != stage.id:
        raise InvalidInput(
            f"io.unitycatalog.tableId must be '{stage.id}', the id of the staged table, not {new.table_id!r}",
            field="properties.io.unitycatalog.tableId",
        )
    return stage


def _first_version(id: SecurableId, state: TableState, commit: CommitFile, size: int) -> Commit:
    return Commit(
        table=id,
        version=0,
        operation=version_kind(commit.commit_info, commit.summary).value,
        file=FIRST_COMMIT.rpartition("/")[2],
        size=size,
        timestamp_ms=state.last_commit_timestamp,
        row_id_mark=state.row_id_mark,
    )
