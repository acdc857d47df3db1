"""Access to a table's files, for clients of the older API families."""

from __future__ import annotations

from moorage.core.callers import Caller
from moorage.core.securables import Kind
from moorage.usecases.catalog import credentials
from moorage.usecases.catalog.credentials import FileAccess
from moorage.usecases.delta.families import require_older_families_enabled
from moorage.usecases.delta.lookup import is_managed
from moorage.usecases.ports import Ports


async def access_for_older_families(ports: Ports, caller: Caller, id: str, *, write: bool) -> FileAccess:
    """Return access to a table of any format, unless the older API families are disabled for it."""
    table = (await credentials.reach_table(ports, caller, id, write=write))[-1]
    if table.kind is Kind.STAGING_TABLE or is_managed(table):
        require_older_families_enabled(ports.managed_tables)
    return await credentials.for_table(ports, caller, id, write=write)
