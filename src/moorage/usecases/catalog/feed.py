"""The feed: every entry in order, from any sequence number on.

A caller that may not read the whole feed gets the changes of objects that it may see. An entry without any keeps its
number and its time, so that the numbers have no gaps, and nothing else.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

from msgspec.structs import replace

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import (
    Change,
    Commit,
    Create,
    Drop,
    DropLine,
    DropVersions,
    Entry,
    EntryBody,
    Erase,
    FinishJob,
    Purge,
    RaiseFloor,
    Rename,
    SetGrants,
    Undrop,
    Update,
)
from moorage.core.errors import InvalidInput
from moorage.core.ids import DraftId, SecurableId
from moorage.core.privileges import Privilege
from moorage.usecases.catalog.job_arguments import visible_args
from moorage.usecases.ports import Ports

_SECRETS: Final = frozenset({"digest", "sealed"})
_TOKENS: Final = "tokens"
_SECRETS_IN: Final = _SECRETS | {_TOKENS}
"""In the details of a record."""


async def entries(
    ports: Ports, caller: Caller, after: int, *, limit: int = 100, wait_s: float = 0.0
) -> tuple[Entry, ...]:
    """The entries after a sequence number. If there are none, wait up to `wait_s` for the next one."""
    require(ports.access, caller, Privilege.BROWSE, ())
    found = await ports.ledger.entries(after, limit=limit)
    if not found:
        await _require_known(ports, after)
        if wait_s > 0 and await ports.ledger.wait_for_entry_after(after, wait_s):
            found = await ports.ledger.entries(after, limit=limit)
    if ports.access.allow(caller, Privilege.FOLLOW, ()):
        return tuple(map(_without_secrets, found))
    return tuple([await _visible(ports, caller, entry) for entry in found])


async def _visible(ports: Ports, caller: Caller, entry: Entry) -> Entry:
    told = [await _visible_change(ports, caller, change) for change in entry.body.changes]
    changes = tuple([change for change in told if change is not None])
    jobs = tuple(
        [
            replace(job, args=await visible_args(ports, caller, job.kind, job.args))
            for job in entry.body.jobs
            if await _may_see(ports, caller, job.subject)
        ]
    )
    if not changes and not jobs:
        return replace(entry, draft=DraftId(""), caller="", api="", request="", body=EntryBody())
    return _without_secrets(replace(entry, body=EntryBody(changes=changes, jobs=jobs)))


async def _visible_change(ports: Ports, caller: Caller, change: Change) -> Change | None:
    """The change as the caller may see it, or None. The grants of others are for those who manage the object."""
    if not await _may_see(ports, caller, _subject_of(change)):
        return None
    if not isinstance(change, SetGrants):
        return change
    chain = (await ports.ledger.lineage(change.id)).chain
    if ports.access.allow(caller, Privilege.INSPECT, chain):
        return change
    own = {name: held for name, held in change.grants.items() if name in caller.principals}
    return SetGrants(id=change.id, grants=own)


async def _may_see(ports: Ports, caller: Caller, id: SecurableId | None) -> bool:
    """Whether the caller may see the object as it is now. A purged object is for readers of the whole feed."""
    chain = (await ports.ledger.lineage(id)).chain if id is not None else ()
    return bool(chain) and ports.access.allow(caller, Privilege.BROWSE, chain)


def _subject_of(change: Change) -> SecurableId | None:
    match change:
        case Commit(table=id) | RaiseFloor(table=id) | DropVersions(table=id) | DropLine(table=id):
            return id
        case Create(id=id) | Update(id=id) | SetGrants(id=id) | Rename(id=id):
            return id
        case Drop(id=id) | Undrop(id=id) | Purge(id=id):
            return id
        case Erase() | FinishJob():
            return None
        case _:
            assert_never(change)


def _without_secrets(entry: Entry) -> Entry:
    """Omit digests of tokens and encrypted secrets. They reveal nothing, but no reader needs them."""
    changes = tuple(map(_without_secret, entry.body.changes))
    return entry if changes == entry.body.changes else replace(entry, body=replace(entry.body, changes=changes))


def _without_secret(change: Change) -> Change:
    """The digest of a user's token, those of a recipient's tokens, or the secret of a storage credential."""
    if not isinstance(change, Create | Update) or _SECRETS_IN.isdisjoint(change.doc.details):
        return change
    details = _without(change.doc.details)
    if isinstance(tokens := details.get(_TOKENS), list):
        details[_TOKENS] = [_without(token) for token in tokens]
    return replace(change, doc=replace(change.doc, details=details))


def _without(details: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in details.items() if name not in _SECRETS}


async def _require_known(ports: Ports, seq: int) -> None:
    """Refuse a number that the ledger has not reached: the client would miss the entries that get these numbers."""
    last = (await ports.ledger.position()).seq
    if seq > last:
        raise InvalidInput(
            f"the ledger ends at entry {last}, so entry {seq} is of another ledger or was lost in a restore; "
            "read the feed again from the beginning",
            field="after",
        )
