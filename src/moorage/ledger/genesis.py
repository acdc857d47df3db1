"""The first entry of every ledger: its metastore."""

from __future__ import annotations

from moorage import fresh
from moorage.core.callers import SYSTEM
from moorage.core.entries import Create, Draft, NameFree
from moorage.core.names import name_key
from moorage.core.securables import NO_PARENT, Doc, Kind, Shelf

METASTORE = "moorage"


def first_draft() -> Draft:
    """The draft that creates the metastore. If several servers start on one new ledger, one succeeds."""
    return Draft(
        id=fresh.draft_id(),
        caller=SYSTEM.id,
        api="ledger",
        request="genesis",
        expects=(NameFree(NO_PARENT, Shelf.METASTORE, name_key(METASTORE)),),
        changes=(
            Create(
                id=fresh.securable_id(),
                kind=Kind.METASTORE,
                parent=NO_PARENT,
                name=METASTORE,
                owner=SYSTEM.id,
                doc=Doc(),
            ),
        ),
    )
