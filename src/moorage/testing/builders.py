"""Builders for drafts and their parts with defaults, so that a test shows only the values that matter to it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from moorage import fresh
from moorage.core.entries import (
    Attachment,
    Change,
    Commit,
    Create,
    Done,
    Draft,
    Drop,
    DropLine,
    DropVersions,
    Erase,
    Expect,
    IdempotencyKey,
    NameFree,
    NewJob,
    Outcome,
    Publish,
    Purge,
    RaiseFloor,
    Receipt,
    Rename,
    SetGrants,
    Undrop,
    Update,
)
from moorage.core.ids import DraftId, SecurableId
from moorage.core.locations import normalize_location
from moorage.core.names import name_key
from moorage.core.securables import MAIN, SHELF_OF, Doc, Kind, Shelf, TableDoc
from moorage.ledger.port import Ledger, Step

ANN = "ann"
BOB = "bob"
START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


class Clock:
    """A clock that only the test moves, forwards or backwards."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, by_ms: int) -> None:
        self.now_ms += by_ms


# --- drafts ------------------------------------------------------------------------------------


def draft(
    *changes: Change,
    expects: Sequence[Expect] = (),
    jobs: Sequence[NewJob] = (),
    attachments: Sequence[Attachment] = (),
    key: IdempotencyKey | None = None,
    keys: Sequence[IdempotencyKey] = (),
    outcome: Outcome | None = None,
    caller: str = ANN,
    id: DraftId | None = None,
) -> Draft:
    return Draft(
        id=id or fresh.draft_id(),
        caller=caller,
        api="test",
        request="a test",
        expects=tuple(expects),
        changes=changes,
        jobs=tuple(jobs),
        attachments=tuple(attachments),
        keys=(key,) if key is not None else tuple(keys),
        outcome=outcome or Done(),
    )


def idempotency_key(value: str, fingerprint: str = "the request", lifetime_ms: int = HOUR_MS) -> IdempotencyKey:
    return IdempotencyKey(value=value, fingerprint=fingerprint, lifetime_ms=lifetime_ms)


def job(kind: str = "compact", **given: Any) -> NewJob:
    return NewJob(id=given.pop("id", None) or fresh.job_id(), kind=kind, **given)


# --- changes -----------------------------------------------------------------------------------


def create(kind: Kind, parent: SecurableId, name: str, **given: Any) -> Create:
    return Create(
        id=given.pop("id", None) or fresh.securable_id(),
        kind=kind,
        parent=parent,
        name=name,
        owner=given.pop("owner", ANN),
        doc=given.pop("doc", Doc()),
        **given,
    )


def catalog(root: SecurableId, name: str, **given: Any) -> Create:
    return create(Kind.CATALOG, root, name, **given)


def namespace(parent: SecurableId, name: str, **given: Any) -> Create:
    return create(Kind.NAMESPACE, parent, name, **given)


def table(parent: SecurableId, name: str, *, path: str | None = None, **given: Any) -> Create:
    doc = given.pop("doc", Doc(location=path, table=TableDoc(format="delta")))
    return create(Kind.TABLE, parent, name, doc=doc, place=path and normalize_location(path), **given)


def stage(parent: SecurableId, path: str, lifetime_ms: int, **given: Any) -> Create:
    id = given.pop("id", None) or fresh.securable_id()
    return create(
        Kind.STAGING_TABLE, parent, id, id=id, place=normalize_location(path), lifetime_ms=lifetime_ms, **given
    )


def commit(table: SecurableId, version: int, *, ref: str = MAIN, **given: Any) -> Commit:
    defaults: dict[str, Any] = {
        "operation": "append",
        "file": f"{version:020}.json",
        "size": 100 + version,
        "timestamp_ms": START_MS + version,
    }
    return Commit(table=table, ref=ref, version=version, **{**defaults, **given})


def attached(
    table: SecurableId,
    version: int,
    *,
    ref: str = MAIN,
    document: bytes | None = None,
    staged: bytes | None = None,
    unsynced: bool = False,
) -> Attachment:
    return Attachment(table=table, ref=ref, version=version, document=document, staged=staged, unsynced=unsynced)


def published_commit(table: SecurableId, version: int, **given: Any) -> Commit:
    """A commit with a file that still has to be published under its final name."""
    publish = Publish(target=f"_delta_log/{version:020}.json", source=f"_staged/{version}.json")
    return commit(table, version, publish=publish, **given)


def update(id: SecurableId, *, owner: str | None = None, holds: str | None = None, **doc: Any) -> Update:
    return Update(id=id, doc=Doc(**doc), owner=owner, place=holds)


def set_grants(id: SecurableId, **grants: Sequence[str]) -> SetGrants:
    return SetGrants(id=id, grants={principal: tuple(privileges) for principal, privileges in grants.items()})


def rename(id: SecurableId, parent: SecurableId, name: str) -> Rename:
    return Rename(id=id, parent=parent, name=name)


def drop(id: SecurableId, hold_ms: int = HOUR_MS) -> Drop:
    return Drop(id=id, hold_ms=hold_ms)


def undrop(id: SecurableId, name: str) -> Undrop:
    return Undrop(id=id, name=name)


def purge(id: SecurableId) -> Purge:
    return Purge(id=id)


def erase(*ids: SecurableId) -> Erase:
    return Erase(ids=ids)


def raise_floor(table: SecurableId, version: int, ref: str = MAIN) -> RaiseFloor:
    return RaiseFloor(table=table, ref=ref, version=version)


def drop_versions(table: SecurableId, first: int, last: int, ref: str = MAIN) -> DropVersions:
    return DropVersions(table=table, ref=ref, first=first, last=last)


def drop_line(table: SecurableId, ref: str) -> DropLine:
    return DropLine(table=table, ref=ref)


# --- expectations and steps --------------------------------------------------------------------


def name_free(change: Create) -> NameFree:
    """Return the expectation that the name of a new object is free."""
    return NameFree(change.parent, SHELF_OF[change.kind], name_key(change.name))


def relation_free(parent: SecurableId, name: str) -> NameFree:
    return NameFree(parent, Shelf.RELATION, name_key(name))


def path_to(*names: str, last: Shelf = Shelf.RELATION) -> tuple[Step, ...]:
    """Return the steps to a path: the catalog, the namespaces, and the last name on the given shelf."""
    shelves = [Shelf.CATALOG, *[Shelf.NAMESPACE] * (len(names) - 2), last]
    return tuple(Step(shelf, name_key(name)) for shelf, name in zip(shelves, names, strict=True))


# --- a small lake ------------------------------------------------------------------------------


class Lake(msgspec.Struct, frozen=True):
    """A catalog with one namespace and some tables, each at version 0."""

    catalog: SecurableId
    namespace: SecurableId
    tables: tuple[SecurableId, ...]

    @property
    def table(self) -> SecurableId:
        return self.tables[0]


async def lake(ledger: Ledger, *tables: str, catalog_name: str = "lake") -> Lake:
    """Create `lake.sea` with the named tables (`t` by default) in one draft."""
    top = catalog(ledger.root, catalog_name)
    inner = namespace(top.id, "sea")
    made = [table(inner.id, name) for name in tables or ("t",)]
    await ledger.append(draft(top, inner, *made, *[commit(each.id, 0) for each in made]))
    return Lake(top.id, inner.id, tuple(each.id for each in made))


async def add(ledger: Ledger, *changes: Change, expects: Sequence[Expect] = ()) -> Receipt:
    """Append these changes as one draft."""
    return await ledger.append(draft(*changes, expects=expects))


async def gather(ledger: Ledger, *drafts: Draft) -> list[Receipt | BaseException]:
    """Append these drafts concurrently. Each result is a receipt or the exception that was raised."""
    return await asyncio.gather(*map(ledger.append, drafts), return_exceptions=True)
