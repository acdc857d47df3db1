"""The contract of storage, the same for every kind of store.

Paths are `root` (a place, ends with a slash) and a relative path below it that went through `confine`.
`put_new` is durable when it returns: the bytes survive a power cut under that name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol


class Listed(NamedTuple):
    """One object of a listing."""

    path: str
    size: int
    modified_ms: int


class Storage(Protocol):
    @property
    def locations(self) -> tuple[str, ...]:
        """The locations that this server may use. A root outside of them is refused with InvalidInput."""
        ...

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        """The whole object, or None if there is none. More than limit bytes: TooLarge."""
        ...

    async def size(self, root: str, path: str) -> int | None:
        """The size of the object in bytes, or None if there is none."""
        ...

    async def is_gone(self, root: str, *paths: str, ask: bool = False) -> bool:
        """Whether the object is missing, or each of several, as far as that can be told at once.

        A store that would have to ask over a network says no, unless it is told to ask: most reads that need no bytes
        would rather not wait. A root that this server may not use is refused all the same.
        """
        ...

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        """Every object whose path begins with prefix and sorts behind after, sorted by path.

        Folders count as part of the path, so a prefix of "log/" lists what lies deeper too. What is
        still being written is not listed. Nothing there: an empty tuple.
        """
        ...

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        """Write the object unless one of that name exists. False: it existed, nothing was written.

        Durable in both cases: whoever wrote what was found may not have cared for that.
        """
        ...

    async def put_again(self, root: str, path: str, data: bytes) -> None:
        """Write the object, whether or not one of that name exists. Readers see the old bytes or the new ones, whole.

        Durable, like put_new.
        """
        ...

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        """Write an object under a name that was made up for it; whether it is durable already.

        If not, it survives the end of this process, and a power cut once `sync` has returned. Cheaper where a name
        cannot appear together with all its bytes: nobody looks for them until an entry of the ledger names them.
        """
        ...

    async def sync(self) -> None:
        """Make durable whatever put_unique wrote before.

        Unavailable: some of it may be lost, though it is still seen.
        """
        ...

    async def keep(self, root: str, path: str) -> None:
        """Make an object durable that somebody else wrote, before anything relies on it; none there is fine."""
        ...

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        """Whether the object now also bears another name in its folder, which it is given if that is free.

        Not durable on every store. One that cannot do it now says no. `data` is what the object holds, if that is
        known: some stores would have to read it.
        """
        ...

    async def delete(self, root: str, path: str) -> None:
        """Remove one object; none there is fine."""
        ...

    async def delete_these(self, root: str, paths: Sequence[str]) -> None:
        """Remove many objects, and with them the folders that they leave empty, be it the root; none there is fine."""
        ...

    async def delete_all(self, root: str) -> None:
        """Remove the root and everything below it; none there is fine."""
        ...


class StoreSettings(NamedTuple):
    """What a client must know to reach the object store. None of it is secret."""

    endpoint: str
    region: str
    path_style: bool


class ClientRequest(Protocol):
    """A request to the object store that a client is about to send."""

    @property
    def writes(self) -> bool: ...

    @property
    def url(self) -> str:
        """The first object or prefix that it touches."""
        ...

    def require_within(self, *locations: str) -> None:
        """Forbidden unless everything that it touches is below these locations."""
        ...


class Delegation(Protocol):
    """How clients that have no key of their own reach the object store."""

    @property
    def locations(self) -> tuple[str, ...]:
        """What this server may use of the store."""
        ...

    @property
    def settings(self) -> StoreSettings: ...

    def holds(self, location: str) -> bool:
        """Whether this server may use the location."""
        ...

    async def signs(self) -> bool:
        """Whether requests can be signed so that they reach one table and nothing else."""
        ...

    def parse(
        self, *, method: str, uri: str, headers: Mapping[str, tuple[str, ...]], body: str | None
    ) -> ClientRequest:
        """What a request would do; Forbidden if that is not known."""
        ...

    async def sign(
        self, request: ClientRequest, locations: Sequence[str], *, now_ms: int
    ) -> dict[str, tuple[str, ...]]:
        """The headers that authorise a request from `parse`, signed with a key that opens these locations only."""
        ...
