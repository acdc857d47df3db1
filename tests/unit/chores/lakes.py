"""Tables with commits to publish, and trees to purge."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from moorage.access.open import OpenAccess
from moorage.core.entries import Commit
from moorage.core.ids import SecurableId
from moorage.core.locations import Roots, normalize_location
from moorage.core.securables import Doc, TableDoc
from moorage.ledger.port import Ledger, Staged
from moorage.snapshots.snapshots import Snapshots
from moorage.storage.local import LocalStorage
from moorage.storage.port import Storage
from moorage.testing import builders as make
from moorage.testing.builders import Clock
from moorage.usecases.ports import Ports
from moorage.usecases.registry import FORMATS
from moorage.usecases.upkeep.release import release_location

NO_LIMIT = 1 << 30


class ClockedPorts(Ports, frozen=True, kw_only=True):
    clock: Clock

    def now_ms(self) -> int:
        return self.clock()


def ports_on(ledger: Ledger, folder: Path, clock: Clock) -> ClockedPorts:
    storage = LocalStorage(folder)
    return ClockedPorts(
        ledger=ledger,
        storage=storage,
        snapshots=Snapshots(storage),
        access=OpenAccess(),
        roots=Roots(normalize_location(str(folder))),
        page_secret=b"x" * 32,
        formats=FORMATS,
        release_location=release_location,
        clock=clock,
    )


def content(version: int) -> bytes:
    return f'{{"commitInfo": {{"version": {version}}}}}\n'.encode() * 5


def target(version: int) -> str:
    return f"_delta_log/{version:020}.json"


async def new_table(ports: Ports, name: str, *, managed: bool = True, location: str | None = None) -> SecurableId:
    """A table in a catalog of its own."""
    lake = await make.lake(ports.ledger, "neighbour", catalog_name=f"lake of {name}")
    doc = Doc(location=location or f"{ports.roots.managed}{name}/", table=TableDoc(format="delta", managed=managed))
    table = make.table(lake.namespace, name, doc=doc)
    await make.add(ports.ledger, table)
    return table.id


def ratified(table: SecurableId, version: int, *, digest: bool = True) -> Commit:
    data = content(version)
    return make.published_commit(table, version, size=len(data), digest=sha256(data).hexdigest() if digest else None)


async def commit(ports: Ports, table: SecurableId, *versions: int, keep_bytes: bool = True) -> None:
    """Append ratified commits. Their bytes are in the ledger, or in a staged file."""
    await ports.ledger.append(
        make.draft(
            *[ratified(table, version) for version in versions],
            attachments=[make.attached(table, n, staged=content(n)) for n in versions if keep_bytes],
        )
    )


async def published_versions(storage: Storage, root: str) -> dict[int, bytes | None]:
    listed = await storage.list(root, "_delta_log/")
    return {
        int(each.path.rpartition("/")[2].removesuffix(".json")): await storage.read(root, each.path, limit=NO_LIMIT)
        for each in listed
    }


async def waiting(ports: Ports) -> list[Staged]:
    return list(await ports.ledger.staged(limit=1000))
