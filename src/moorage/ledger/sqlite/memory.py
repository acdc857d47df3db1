"""What the embedded ledger remembers of live objects, so that most reads need no statement.

Only this process writes, and memory follows each draft before it is answered, so memory and file
agree whenever somebody can ask. Absence is never remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from moorage.core.entries import Commit, Draft, Drop, DropLine, Erase, Purge, RaiseFloor, Rename, Undrop, Update
from moorage.core.history import changed
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.securables import MAIN, Head, Securable
from moorage.ledger.port import Step

_MOST = 100_000
_MOST_BY_LISTS = 20_000
"""Beyond this a list teaches nothing more: reading a whole lake once must not fill the memory with it."""

_Place = tuple[SecurableId, str, str]


class Memory:
    """Live objects by (parent, shelf, name key)."""

    def __init__(self) -> None:
        self._at: dict[_Place, Securable] = {}
        self._where: dict[SecurableId, _Place] = {}

    def walk(self, root: SecurableId, steps: Sequence[Step]) -> tuple[Securable, ...] | None:
        """The whole chain, or None if some of it is not remembered."""
        chain = []
        parent = root
        for step in steps:
            found = self._at.get((parent, step.shelf, step.key))
            if found is None:
                return None
            chain.append(found)
            parent = found.id
        return tuple(chain)

    def learn(self, root: SecurableId, steps: Sequence[Step], chain: Sequence[Securable]) -> None:
        """Remember a chain that was read whole; its last object carries its head."""
        if len(self._at) > _MOST:
            self._at.clear()
            self._where.clear()
        parent = root
        for step, securable in zip(steps, chain, strict=True):
            place = (parent, step.shelf, step.key)
            self._at[place] = securable
            self._where[securable.id] = place
            parent = securable.id

    def climb(self, root: SecurableId, id: SecurableId) -> tuple[Securable, ...] | None:
        """An object below its ancestors, or None if some of them are not remembered. All of it is live."""
        chain: list[Securable] = []
        while id != root:
            place = self._where.get(id)
            if place is None:
                return None
            chain.append(self._at[place])
            id = place[0]
        chain.reverse()
        return tuple(chain)

    def recall(self, ids: Iterable[SecurableId]) -> tuple[Securable, ...] | None:
        """All of these, or None if one is not remembered."""
        try:
            return tuple([self._at[self._where[id]] for id in ids])
        except KeyError:
            return None

    def learn_children(self, parent: SecurableId, shelf: str, children: Sequence[Securable]) -> None:
        """Remember objects that were read with their heads."""
        if len(self._at) + len(children) > _MOST_BY_LISTS:
            return
        for child in children:
            place = (parent, shelf, name_key(child.name))
            self._at[place] = child
            self._where[child.id] = place

    def publish(self, id: SecurableId, version: int, *, claimed: bool) -> None:
        """Keep up with a note on what was published of a table's main line."""
        place = self._where.get(id)
        if place is None:
            return
        head = self._at[place].head
        if head is None:
            self.forget(id)
            return
        published = version if head.published is None else max(head.published, version)
        noted = replace(head, published=published, claimed=max(head.claimed, version if claimed else -1))
        self._at[place] = replace(self._at[place], head=noted)

    def forget(self, id: SecurableId) -> None:
        place = self._where.pop(id, None)
        if place is not None:
            del self._at[place]

    def follow(self, draft: Draft, at_ms: int) -> None:
        """Keep up with a draft that became history."""
        for change in draft.changes:
            match change:
                case Update(id=id) if id in self._where:
                    place = self._where[id]
                    self._at[place] = changed(self._at[place], change, at_ms, draft.caller)
                case Commit(table=id) if id in self._where:
                    place = self._where[id]
                    self._at[place] = replace(self._at[place], head=_moved(self._at[place].head, change))
                case Rename(id=id) | Drop(id=id) | Undrop(id=id) | Purge(id=id):
                    self.forget(id)
                case RaiseFloor(table=id) | DropLine(table=id):
                    self.forget(id)
                case Erase(ids=ids):
                    for id in ids:
                        self.forget(id)


def _moved(before: Head | None, commit: Commit) -> Head | None:
    if commit.ref != MAIN:
        return before
    return Head(
        ref=MAIN,
        version=commit.version,
        timestamp_ms=commit.timestamp_ms,
        row_id_mark=commit.row_id_mark if commit.row_id_mark is not None or before is None else before.row_id_mark,
        floor=before.floor if before else 0,
        published=before.published if before else None,
        claimed=before.claimed if before else -1,
    )
