"""The effect of each change on an object, as pure functions."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from moorage.core.entries import (
    Change,
    Commit,
    Create,
    Drop,
    DropLine,
    DropVersions,
    Erase,
    FinishJob,
    Purge,
    RaiseFloor,
    Rename,
    SetGrants,
    Undrop,
    Update,
)
from moorage.core.securables import Securable


def created(change: Create, at_ms: int, by: str) -> Securable:
    """The object that a `Create` makes."""
    return Securable(
        id=change.id,
        kind=change.kind,
        parent=change.parent,
        name=change.name,
        owner=change.owner,
        revision=1,
        created_at_ms=at_ms,
        created_by=by,
        updated_at_ms=at_ms,
        updated_by=by,
        expires_at_ms=None if change.lifetime_ms is None else at_ms + change.lifetime_ms,
        doc=change.doc,
    )


def changed(before: Securable, change: Change, at_ms: int, by: str) -> Securable:
    """The object after the change. Changes that do not affect its record return it as it was."""
    if isinstance(change, Update):  # by far the most frequent, so one copy instead of two
        return replace(
            before,
            revision=before.revision + 1,
            updated_at_ms=at_ms,
            updated_by=by,
            doc=change.doc,
            owner=change.owner or before.owner,
        )
    after = replace(before, revision=before.revision + 1, updated_at_ms=at_ms, updated_by=by)
    match change:
        case SetGrants(grants=grants):
            return replace(after, grants=grants)
        case Rename(parent=parent, name=name):
            return replace(after, parent=parent, name=name)
        case Drop(hold_ms=hold_ms):
            return replace(after, dropped_at_ms=at_ms, purge_at_ms=at_ms + hold_ms)
        case Undrop(name=name):
            return replace(after, dropped_at_ms=None, purge_at_ms=None, name=name)
        case Purge():
            return replace(before, revision=before.revision + 1, purged=True)
        case Create() | Erase() | Commit() | RaiseFloor() | DropVersions() | DropLine() | FinishJob():
            return before
        case _:
            assert_never(change)
