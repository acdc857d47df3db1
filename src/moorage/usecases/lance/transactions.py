"""Transactions of the Lance API. A transaction is a ledger entry; its id is the entry's number."""

from __future__ import annotations

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import Entry
from moorage.core.errors import JobEnded, SecurableNotFound
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.usecases.lance.lookup import is_lance
from moorage.usecases.ports import Ports

_MAX_DIGITS = 18


async def describe_transaction(ports: Ports, caller: Caller, id: str) -> Entry:
    """The entry with this number, if it changed a Lance table that the caller may see."""
    entry = await _entry(ports, id)
    is_visible = False
    for table in _changed_ids(entry) if entry is not None else ():
        chain = (await ports.ledger.lineage(table)).chain
        if chain and is_lance(chain[-1]):
            # Numbers of entries can be guessed, so the error must not name a table.
            require(ports.access, caller, Privilege.BROWSE, chain, hidden=lambda: _absent(id))
            is_visible = True
    if entry is None or not is_visible:
        raise _absent(id)
    return entry


def _absent(id: str) -> SecurableNotFound:
    return SecurableNotFound(f"transaction '{id}' does not exist", field="id", kind="transaction")


async def alter_transaction(ports: Ports, caller: Caller, id: str) -> None:
    """Always refused: every entry of the ledger has succeeded and never changes."""
    await describe_transaction(ports, caller, id)
    raise JobEnded(f"transaction '{id}' has succeeded and cannot be altered", field="actions")


async def _entry(ports: Ports, id: str) -> Entry | None:
    if not id.isascii() or not id.isdigit() or len(id) > _MAX_DIGITS or id.startswith("0"):
        return None
    found = await ports.ledger.entries(int(id) - 1, limit=1)
    return found[0] if found and found[0].seq == int(id) else None


def _changed_ids(entry: Entry) -> list[SecurableId]:
    """The ids of the objects that the entry changes, each once, in order."""
    ids = (getattr(change, "table", None) or getattr(change, "id", None) for change in entry.body.changes)
    return [id for id in dict.fromkeys(ids) if id is not None]
