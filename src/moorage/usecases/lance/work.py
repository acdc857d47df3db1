"""Work on Lance tables in worker processes that run pylance. Their commits become versions in the caller's name."""

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
from moorage.usecases.lance.lookup import client_location, find_table
from moorage.usecases.lance.versions import NewVersion, TableVersion, create_version, describe_version
from moorage.usecases.local_state import LanceWorkQueue, Queue
from moorage.usecases.ports import Errand, Ports

P = ParamSpec("P")
T = TypeVar("T")


class WorkResult(msgspec.Struct, Generic[T], frozen=True):
    """The result of work, and the number of the entry of its commit; None if it created no version."""

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
    """Read the table in a worker process."""
    table = (await find_table(ports, errand.caller, address, Privilege.READ))[-1]
    versions = TableLines(ports, errand, address, table)
    return await ports.worker_pool.run(versions, client_location(table), work, *given, **named)


async def change_table(
    ports: Ports,
    errand: Errand,
    address: Address,
    work: Callable[Concatenate[JobTable, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> WorkResult[T]:
    """Change the table in a worker process. The caller holds the table's work queue."""
    table = (await find_table(ports, errand.caller, address, Privilege.MODIFY))[-1]
    versions = TableLines(ports, errand, address, table)
    result = await ports.worker_pool.run(versions, client_location(table), work, *given, **named)
    return WorkResult(result, versions.transaction)


def work_queue(ports: Ports, address: Address) -> Queue:
    """The queue of worker processes that change a table: if two ran concurrently, one would have to retry.

    It is not the table's commit queue, which is taken while this one is held.
    """
    return ports.local.queue(LanceWorkQueue(queue_of(address).keys))


class TableLines:
    """Serves the versions of one table to pylance in a worker process."""

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
        return _to_manifest(made)

    async def _commit(self, new: NewVersion) -> TableVersion:
        return await create_version(self._ports, self._errand, self._address, new)

    async def _find(self, branch: str | None, version: int | None) -> Manifest:
        await self._find_same_table(self._errand.caller, Privilege.READ)
        return _to_manifest(
            await describe_version(self._ports, self._errand.caller, self._address, require_branch(branch), version)
        )

    async def _find_same_table(self, caller: Caller, privilege: Privilege) -> Securable:
        """The current state of the table. Another table that now has its name is refused."""
        table = (await find_table(self._ports, caller, self._address, privilege))[-1]
        if table.id != self._table.id:
            raise TableNotFound(
                f"table '{self._address}' was replaced by another table during this request", kind="table"
            )
        return table


def _to_manifest(version: TableVersion) -> Manifest:
    return Manifest(version=version.version, manifest_path=version.manifest_path, manifest_size=version.manifest_size)
