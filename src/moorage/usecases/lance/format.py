"""Lance's entry in the table of formats."""

from __future__ import annotations

from typing import Any, ClassVar

from moorage.core.callers import Caller
from moorage.core.entries import Publish
from moorage.core.health import TableFacts
from moorage.core.jobs import COMPACT, EXPIRE
from moorage.core.securables import Securable
from moorage.ledger.port import Staged
from moorage.usecases.catalog.addresses import Chain
from moorage.usecases.formats import TableFormat
from moorage.usecases.lance.health import retention_days, table_facts
from moorage.usecases.lance.leftovers import sweep_line
from moorage.usecases.lance.lookup import LANCE, is_deleted_branch
from moorage.usecases.lance.manifests import is_cleaned_up
from moorage.usecases.lance.operations import OPERATIONS
from moorage.usecases.ports import Ports


class LanceFormat(TableFormat):
    """Lance tables: the catalog records their versions and copies their manifests to the final names."""

    name: ClassVar = LANCE
    is_compactable: ClassVar = True
    job_kinds: ClassVar = frozenset({COMPACT, EXPIRE})
    operations: ClassVar = OPERATIONS
    deletes_staged: ClassVar = True
    """Readers get the final name. A reader that got the staged name, because the store was briefly unavailable, finds
    the final one: Lance's clients look for it, because another client may have published first."""

    def job_defaults(self, table: Securable, kind: str) -> dict[str, Any]:
        return {"older_than_days": retention_days(table)} if kind == EXPIRE else {}

    async def health(self, ports: Ports, caller: Caller, chain: Chain) -> TableFacts | None:
        return await table_facts(ports, caller, chain)

    async def is_abandoned(
        self,
        ports: Ports,
        table: Securable,
        staged: Staged,
        publish: Publish,
        data: bytes | None,
        *,
        is_new: bool = False,
    ) -> bool:
        """Publishing an abandoned version would restore a deleted branch, or a version without its data."""
        if await is_deleted_branch(ports, table, staged.ref, publish.source):
            return True
        final = None if is_new else publish.target
        return data is not None and await is_cleaned_up(ports, table, staged, data, final=final)

    async def sweep(self, ports: Ports, table: Securable, ref: str, published: int) -> None:
        await sweep_line(ports, table, ref, published)
