"""A version of a Lance table as one operation of a transaction, beside others of any format."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from moorage.core.callers import Caller
from moorage.core.errors import VersionTaken
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind
from moorage.formats.lance.manifests import NamingScheme, require_branch
from moorage.usecases.addresses import Address
from moorage.usecases.lance_found import find_table, table_at
from moorage.usecases.lance_versions import NewVersion, Repeated, line_of, prepare_version
from moorage.usecases.ports import Ports
from moorage.usecases.settle import Part
from moorage.usecases.transact import Operation, offers
from moorage.usecases.trunk import Beside
from moorage.usecases.turns import TurnKey, turn_key

_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]


class LanceVersion(Operation, frozen=True, kw_only=True, tag="lance_version"):
    """Make a staged manifest the next version of a Lance table."""

    path: tuple[str, ...]
    version: _Count
    manifest_path: str
    manifest_size: _Count | None = None
    e_tag: str | None = None
    metadata: dict[str, str] | None = None
    naming_scheme: NamingScheme | None = None
    branch: str | None = None

    @property
    def turn(self) -> TurnKey:
        return turn_key(Address(Kind.TABLE, self.path))


@offers(LanceVersion)
async def _create(ports: Ports, caller: Caller, op: LanceVersion, beside: Beside) -> Part:
    """As with a Delta commit: that this very version exists cannot be all of the answer to a transaction."""
    new = NewVersion(
        version=op.version,
        manifest_path=op.manifest_path,
        manifest_size=op.manifest_size,
        e_tag=op.e_tag,
        metadata=op.metadata,
        scheme=op.naming_scheme,
        ref=require_branch(op.branch),
    )
    table = (await find_table(ports, caller, table_at(op.path, "path"), Privilege.MODIFY))[-1]
    try:
        return await prepare_version(ports, await line_of(ports, table, new.ref), new)
    except Repeated:
        raise VersionTaken(
            f"version {op.version} was created from this very manifest before; to repeat a transaction safely, "
            "send it with the Idempotency-Key of its first sending",
            field="version",
        ) from None
