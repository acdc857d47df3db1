"""Work on Lance tables: a worker does it with pylance, and its commits become versions under the caller's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import SecurableNotFound, TableNotFound, VersionNotFound
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.datasets.job_table import JobTable
from moorage.datasets.messages import Manifest, StagedManifest
from moorage.formats.lance.manifests import NamingScheme, require_branch
from moorage.usecases.catalog.addresses import Address, queue_of
from moorage.usecases.lance.lookup import find_table, location_of
from moorage.usecases.lance.versions import NewVersion, TableVersion, create_version, describe_version
from moorage.usecases.local_state import LanceWorkQueue, Queue
from moorage.usecases.ports import Errand, Ports

P = ParamSpec("P")
T = TypeVar("T")


class Worked(msgspec.Struct, Generic[T], frozen=True):
    """What came of it, and the entry that its commit became; none if it made no version."""

    result: T
    transaction: str | None


async def read_table(
    ports: Ports,
    errand: Errand,
    address: Address,
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> T:
    """Let a worker read the table."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    versions = TableLines(ports, errand, address, table)
    return await ports.worker_pool.run(versions, location_of(table), work, *given, **named)


async def change_table(
    ports: Ports,
    errand: Errand,
    address: Address,
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> Worked[T]:
    """Let a worker change the table, whose turn the caller holds."""
    table = (await find_table(ports, errand.caller, address, Privilege.MODIFY))[-1]
    versions = TableLines(ports, errand, address, table)
    result = await ports.worker_pool.run(versions, location_of(table), work, *given, **named)
    return Worked(result, versions.transaction)


def work_queue(ports: Ports, address: Address) -> Queue:
    """The queue of workers that change a table: of two at a time one would only have to retry.

    It is another queue than that of commits, which is taken inside of it.
    """
    return ports.local.queue(LanceWorkQueue(queue_of(address).keys))


class TableLines:
    """The lines of one table, as a worker's pylance asks for them."""

    def __init__(self, ports: Ports, errand: Errand, address: Address, table: Securable) -> None:
        self._ports = ports
        self._errand = errand
        self._address = address
        self._table = table
        self.transaction: str | None = None

    async def newest(self, branch: str | None) -> Manifest | None:
        try:
            return await self._find(branch, None)
        except (VersionNotFound, SecurableNotFound):
            return None

    async def at(self, branch: str | None, version: int) -> Manifest:
        return await self._find(branch, version)

    async def add(self, staged: StagedManifest) -> Manifest:
        new = NewVersion(
            version=staged.version,
            manifest_path=staged.manifest_path,
            manifest_size=staged.manifest_size,
            e_tag=staged.e_tag,
            scheme=None if staged.naming_scheme is None else NamingScheme(staged.naming_scheme),
            ref=require_branch(staged.branch),
        )
        made = await self._commit(new)
        self.transaction = None if made.seq is None else str(made.seq)
        return _shown(made)

    async def _commit(self, new: NewVersion) -> TableVersion:
        return await create_version(self._ports, self._errand, self._address, new)

    async def _find(self, branch: str | None, version: int | None) -> Manifest:
        await self._find_own(self._errand.caller, Privilege.READ)
        return _shown(
            await describe_version(self._ports, self._errand.caller, self._address, require_branch(branch), version)
        )

    async def _find_own(self, caller: Caller, privilege: Privilege) -> Securable:
        """The table as it is now. Another one may bear its name, which is no business of this worker's."""
        table = (await find_table(self._ports, caller, self._address, privilege))[-1]
        if table.id != self._table.id:
            raise TableNotFound(f"table '{self._address}' was replaced meanwhile", kind="table")
        return table


def _shown(version: TableVersion) -> Manifest:
    return Manifest(version=version.version, manifest_path=version.manifest_path, manifest_size=version.manifest_size)
