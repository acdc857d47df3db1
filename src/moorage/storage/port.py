"""The storage contract, which every store implements.

An object is addressed by `root` (a location, which ends with a slash) and a relative path below it that `confine`
returned. An object is durable when its bytes survive a power cut under its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Listed(NamedTuple):
    """One object in a listing."""

    path: str
    size: int
    modified_ms: int


class Storage(Protocol):
    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        """Return the whole object, or None if it does not exist. Raises TooLarge if it has more than limit bytes."""
        ...

    async def size(self, root: str, path: str) -> int | None:
        """Return the size of the object in bytes, or None if it does not exist."""
        ...

    async def is_gone(self, root: str, *paths: str, ask: bool = False) -> bool:
        """Whether all the given objects are known to be missing.

        A store that needs a network request for this sends one only if `ask` is set, and else returns False: most
        callers that need no bytes do not want to wait. A root that this server may not use is refused in any case.
        """
        ...

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        """Return all objects whose path begins with prefix and sorts after `after`, sorted by path.

        Folders are part of the path, so the prefix "log/" also lists objects in subfolders. Objects that are
        still being written are not listed. The result is empty if nothing matches.
        """
        ...

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        """Write the object unless one of that name exists. Returns False, and writes nothing, if it exists.

        The object is durable in both cases, because another writer may not have synced the one that exists.
        """
        ...

    async def put_again(self, root: str, path: str, data: bytes) -> None:
        """Write the object, and replace one of that name. Readers see either all old bytes or all new bytes.

        The object is durable on return, as with put_new.
        """
        ...

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        """Write an object under a name that no other object uses, and return whether it is durable already.

        If not, it survives the end of this process, and a power cut only after `sync` has returned. This is cheaper
        than put_new where a name cannot appear atomically with its bytes: no reader opens the object before a ledger
        entry names it.
        """
        ...

    async def sync(self) -> None:
        """Make durable everything that put_unique has written.

        Raises Unavailable if some of it may be lost, although readers still see it.
        """
        ...

    async def keep(self, root: str, path: str) -> None:
        """Make an object durable that another process wrote, before anything relies on it. It may be missing."""
        ...

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        """Give the object a second name in its folder, if that name is free. Returns whether it now has that name.

        The name is not durable on every store. A store that cannot link now returns False. `data` is the object's
        content, if the caller has it: some stores would otherwise have to read it.
        """
        ...

    async def delete(self, root: str, path: str) -> None:
        """Delete one object. It may be missing."""
        ...

    async def delete_these(self, root: str, paths: Sequence[str]) -> None:
        """Delete many objects, and the folders that this leaves empty, the root included. They may be missing."""
        ...

    async def delete_all(self, root: str) -> None:
        """Delete the root and everything below it. It may be missing."""
        ...
