"""CreateTable: create a Lance table with its first rows, in one entry.

The rows are first written to the location of a staging table. The commit of the first version then creates the table,
drops the table that it overwrites, if any, and records the version, all in one entry.
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
from moorage.usecases.catalog.staging import creation_in, prepare_staging_table
from moorage.usecases.lance.idempotent import carry_out_once, settled_entry
from moorage.usecases.lance.lookup import LANCE, client_location, find_table, is_lance, name_taken_error
from moorage.usecases.lance.tables import drop_table_part, find_holder, from_staging_table
from moorage.usecases.lance.versions import (
    Line,
    NewVersion,
    TableVersion,
    created_version,
    prepare_version,
)
from moorage.usecases.lance.work import TableLines
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import Settled, settle, settle_one
from moorage.usecases.upkeep.purge import purge

FIRST_VERSION = 1


class IfTableExists(Enum):
    """What to do if the name is taken by a table."""

    CREATE = "create"
    EXIST_OK = "exist_ok"
    OVERWRITE = "overwrite"


class CreatedTable(msgspec.Struct, frozen=True, kw_only=True):
    """The table, its newest version, and the entry that created it, if this request did."""

    table: Securable
    version: int | None
    transaction: str | None = None


async def create_table(
    ports: Ports, errand: Errand, address: Address, stream: bytes, *, properties: dict[str, str], mode: IfTableExists
) -> CreatedTable:
    """Create a table from the rows of an Arrow stream, once per idempotency key."""

    async def carry_out() -> CreatedTable:
        try:
            above, _ = await _require_replaceable(ports, errand.caller, address, mode)
            staging_part = prepare_staging_table(ports, errand.caller, above, address.path[-1])
            creation = _NewTableLines(ports, errand, address, staging_part, properties, mode)
            written = await creation.write(stream)
        except NameTaken:
            if mode is not IfTableExists.EXIST_OK:
                raise
            table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
            return CreatedTable(table=table, version=None if table.head is None else table.head.version)
        if written is None:
            return await _first_response(ports, creation.first)
        return CreatedTable(table=creation.table, version=written.version, transaction=creation.transaction)

    return await carry_out_once(ports, errand, carry_out, lambda first: _first_response(ports, first))


async def _first_response(ports: Ports, first: Settled) -> CreatedTable:
    """The response to the first request under this key, even if the table has changed since."""
    entry = await settled_entry(ports, first)
    create = next(change for change in entry.body.changes if isinstance(change, Create))
    table = created(create, entry.at_ms, entry.caller)
    return CreatedTable(table=table, version=FIRST_VERSION, transaction=str(entry.seq))


async def _require_replaceable(
    ports: Ports, caller: Caller, address: Address, mode: IfTableExists
) -> tuple[Chain, Securable | None]:
    """The ancestors of the new table, and the table that it replaces, if any."""
    above, holder = await find_holder(ports, caller, address)
    if holder is not None:
        if mode is not IfTableExists.OVERWRITE or not is_lance(holder):
            raise name_taken_error(address, holder)
        require(ports.access, caller, Privilege.MANAGE, (*above, holder))
    return above, holder


class _NewTableLines(TableLines):
    """The lines of a table that is being created. It has no versions; the commit of its first version creates it.

    Until then its files belong to a staging table, so that upkeep deletes them if this server crashes.
    """

    def __init__(
        self,
        ports: Ports,
        errand: Errand,
        address: Address,
        staging_part: Part,
        properties: dict[str, str],
        mode: IfTableExists,
    ) -> None:
        self._staging_part = staging_part
        self._staging_table: Securable | None = None
        self._properties = properties
        self._mode = mode
        self._first: Settled | None = None
        reserved = creation_in(staging_part.changes)
        doc = Doc(location=reserved.place, properties=properties, table=TableDoc(format=LANCE))
        table = replace(reserved, kind=Kind.TABLE, name=address.path[-1], doc=doc)
        super().__init__(ports, errand, address, created(table, ports.now_ms(), errand.caller.id))

    @property
    def table(self) -> Securable:
        return self._table

    @property
    def first(self) -> Settled:
        """The outcome of the same request, sent concurrently, that finished first."""
        if self._first is None:
            raise TypeError("no concurrent request was carried out")
        return self._first

    async def write(self, stream: bytes) -> rows.Written | None:
        """Write and commit the rows; None if the same request, sent concurrently, did so first."""
        try:
            return await self._ports.worker_pool.run(self, client_location(self._table), rows.create, stream)
        except OutcomeUnknown:
            raise
        except Exception:
            if self.transaction is None and self._staging_table is not None:
                with suppress(MoorageError):  # upkeep purges it later; the original error matters more
                    await purge(self._ports, self._staging_table)
            if self._first is not None:
                return None
            raise

    async def newest(self, branch: str | None) -> Manifest | None:
        """None. pylance calls this after it has parsed the Arrow stream and before it writes the rows."""
        await self._reserve()
        return None

    async def _reserve(self) -> Securable:
        async def prepare(_: Caller) -> Part:
            return self._staging_part

        if self._staging_table is None:
            self._staging_table = await settle_one(self._ports, replace(self._errand, key=None), prepare)
        return self._staging_table

    async def _find(self, branch: str | None, version: int | None) -> Manifest:
        raise VersionNotFound("the table is still being created")

    async def _commit(self, new: NewVersion) -> TableVersion:
        settled = await settle(self._ports, self._errand, lambda caller: self._prepare(caller, new))
        if not settled.parts:
            self._first = settled
            raise RequirementFailed("this request was already carried out")
        return await created_version(self._ports, settled)

    async def _prepare(self, caller: Caller, new: NewVersion) -> list[Part]:
        ports, address = self._ports, self._address
        above, holder = await _require_replaceable(ports, caller, address, self._mode)
        creation = from_staging_table(caller, address, above, await self._reserve(), self._properties)
        version = await prepare_version(ports, Line(self._table, MAIN, None), new)
        # The line does not exist yet, so its head cannot be an expectation.
        parts = [replace(creation, done=Done()), replace(version, expects=())]
        return [drop_table_part(ports, holder), *parts] if holder is not None else parts
