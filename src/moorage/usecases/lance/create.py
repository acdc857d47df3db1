"""CreateTable: a Lance table with its first rows, as one entry.

The rows are written to a place of their own first. Only the commit of that first version makes the table:
it is created, an older one of its name goes if it was to be overwritten, and the version is recorded, all of
it or nothing.
"""

from __future__ import annotations

from contextlib import suppress
from enum import Enum

import msgspec
from msgspec.structs import replace

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Create, Done
from moorage.core.errors import MoorageError, NameTaken, OutcomeUnknown, RequirementFailed, VersionNotFound
from moorage.core.history import created
from moorage.core.privileges import Privilege
from moorage.core.securables import MAIN, Doc, Kind, Securable, TableDoc
from moorage.datasets import rows
from moorage.datasets.messages import Manifest
from moorage.usecases.catalog.addresses import Address, Chain
from moorage.usecases.catalog.staging import creation_in, staging
from moorage.usecases.lance.idempotent import entry_of, once
from moorage.usecases.lance.lookup import LANCE, find_table, is_lance, location_of, taken
from moorage.usecases.lance.tables import dropping_table, find_room, from_staging_table
from moorage.usecases.lance.versions import (
    Line,
    NewVersion,
    TableVersion,
    just_made,
    prepare_version,
)
from moorage.usecases.lance.work import TableLines
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, settle, settle_one
from moorage.usecases.upkeep.purge import purge

FIRST_VERSION = 1


class IfExists(Enum):
    """What to do about a table that has the name already."""

    CREATE = "create"
    EXIST_OK = "exist_ok"
    OVERWRITE = "overwrite"


class CreatedTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table, its newest version, and the entry that made it, if this request did."""

    table: Securable
    version: int | None
    transaction: str | None = None


async def create_table(
    ports: Ports, errand: Errand, address: Address, stream: bytes, *, properties: dict[str, str], mode: IfExists
) -> CreatedTable:
    """Make a table of the rows of an Arrow stream. Under a key this is done once."""

    async def carry_out() -> CreatedTable:
        try:
            above, _ = await _room_for(ports, errand.caller, address, mode)
            stage = staging(ports, errand.caller, above, address.path[-1])
            creation = _Creation(ports, errand, address, stage, properties, mode)
            written = await creation.carry_out(stream)
        except NameTaken:
            if mode is not IfExists.EXIST_OK:
                raise
            table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
            return CreatedTable(table=table, version=None if table.head is None else table.head.version)
        if written is None:
            return await _created_first(ports, creation.first)
        return CreatedTable(table=creation.table, version=written.version, transaction=creation.transaction)

    return await once(ports, errand, carry_out, lambda first: _created_first(ports, first))


async def _created_first(ports: Ports, first: Settled) -> CreatedTable:
    """The answer to the first of several requests under one key, whatever became of the table since."""
    entry = await entry_of(ports, first)
    create = next(change for change in entry.body.changes if isinstance(change, Create))
    table = created(create, entry.at_ms, entry.caller)
    return CreatedTable(table=table, version=FIRST_VERSION, transaction=str(entry.seq))


async def _room_for(ports: Ports, caller: Caller, address: Address, mode: IfExists) -> tuple[Chain, Securable | None]:
    """Where the table will stand, and the one that it takes the place of."""
    above, holder = await find_room(ports, caller, address)
    if holder is not None:
        if mode is not IfExists.OVERWRITE or not is_lance(holder):
            raise taken(address, holder)
        require(ports.access, caller, Privilege.MANAGE, (*above, holder))
    return above, holder


class _Creation(TableLines):
    """A table that is being made: it has no versions, and its first makes it.

    Until then its files lie in a stage, which upkeep knows should this server not live to see the table.
    """

    def __init__(
        self,
        ports: Ports,
        errand: Errand,
        address: Address,
        staging: Part,
        properties: dict[str, str],
        mode: IfExists,
    ) -> None:
        self._staging = staging
        self._stage: Securable | None = None
        self._properties = properties
        self._mode = mode
        self._first: Settled | None = None
        stage = creation_in(staging.changes)
        doc = Doc(location=stage.place, properties=properties, table=TableDoc(format=LANCE))
        table = replace(stage, kind=Kind.TABLE, name=address.path[-1], doc=doc)
        super().__init__(ports, errand, address, created(table, ports.now_ms(), errand.caller.id))

    @property
    def table(self) -> Securable:
        return self._table

    @property
    def first(self) -> Settled:
        """What the same request, sent at the same time, has become in between."""
        if self._first is None:
            raise TypeError("no other request was carried out")
        return self._first

    async def carry_out(self, stream: bytes) -> rows.Written | None:
        """Write the rows and commit them; None if the same request, sent at the same time, has done so."""
        try:
            return await self._ports.worker_pool.run(self, location_of(self._table), rows.create, stream)
        except OutcomeUnknown:
            raise
        except Exception:
            if self.transaction is None and self._stage is not None:
                with suppress(MoorageError):  # else upkeep does it, and it is not worth another error
                    await purge(self._ports, self._stage)
            if self._first is not None:
                return None
            raise

    async def newest(self, branch: str | None) -> Manifest | None:
        """None. pylance asks this when it has seen that the rows are rows, and before it writes them."""
        await self._begin()
        return None

    async def _begin(self) -> Securable:
        async def prepare(_: Caller) -> Part:
            return self._staging

        if self._stage is None:
            self._stage = await settle_one(self._ports, replace(self._errand, key=None), prepare)
        return self._stage

    async def _find(self, branch: str | None, version: int | None) -> Manifest:
        raise VersionNotFound("the table is only being made")

    async def _commit(self, new: NewVersion) -> TableVersion:
        settled = await settle(self._ports, self._errand, lambda caller: self._prepare(caller, new))
        if not settled.parts:
            self._first = settled
            raise RequirementFailed("this request is carried out already")
        return await just_made(self._ports, settled)

    async def _prepare(self, caller: Caller, new: NewVersion) -> list[Part]:
        ports, address = self._ports, self._address
        above, holder = await _room_for(ports, caller, address, self._mode)
        creation = from_staging_table(caller, address, above, await self._begin(), self._properties)
        version = await prepare_version(ports, Line(self._table, MAIN, None), new)
        # There is no line yet whose head could be expected.
        parts = [replace(creation, done=Done()), replace(version, expects=())]
        return [dropping_table(ports, holder), *parts] if holder is not None else parts
