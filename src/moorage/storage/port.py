"""The storage contract, which every store implements.

An object is addressed by `root` (a location, which ends with a slash) and a relative path below it that `confine`
returned. An object is durable when its bytes survive a power cut under its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from moorage.core.securables import Securable
from moorage.core.vended import StoreSettings, Vended


class Listed(NamedTuple):
    """One object in a listing."""

    path: str
    size: int
    modified_ms: int


class NewObject(NamedTuple):
    """An object to be written under a name that should be free."""

    root: str
    path: str
    data: bytes
    source: str | None = None
    """The path of an object that may have the same bytes. A store with links then need not write them again."""


class Placed(Enum):
    """What became of a new object."""

    NEW = "new"
    SAME = "same"
    """It was there already, with the same bytes."""
    OTHER = "other"
    """Another object has the name."""
    SKIPPED = "skipped"
    """An object before it in the same root has another one in its place."""


class Storage(Protocol):
    @property
    def locations(self) -> tuple[str, ...]:
        """The locations that this server may use. A root outside of them is refused with InvalidInput."""
        ...

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        """Return the whole object, or None if it does not exist. Raises TooLarge if it has more than limit bytes."""
        ...

    async def read_range(self, root: str, path: str, *, start: int, end: int) -> bytes | None:
        """Return the bytes from start up to end, or fewer if the object is shorter. None if it does not exist."""
        ...

    async def size(self, root: str, path: str) -> int | None:
        """Return the size of the object in bytes, or None if it does not exist."""
        ...

    async def is_missing(self, root: str, *paths: str, remote: bool = False) -> bool:
        """Whether all the given objects are known to be missing.

        A store that needs a network request for this sends one only if `remote` is set, and else returns False: most
        callers that need no bytes should not wait. A root that this server may not use is refused in any case.
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

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        """Write many objects, in order, as put_new does, and wait for the disk for all of them together.

        Within a root, it stops before the first object whose name has other bytes. Objects that are NEW or SAME are
        durable on return. If it raises an error, some objects may be there.
        """
        ...

    async def overwrite(self, root: str, path: str, data: bytes) -> None:
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
        """Make durable everything that put_unique has written, and every name that link has made, with its bytes.

        Raises Unavailable if some of it may be lost, although readers still see it.
        """
        ...

    async def make_durable(self, root: str, path: str) -> None:
        """Make an object durable that another process wrote, before anything relies on it. It may be missing."""
        ...

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        """Give the object a second name in its folder, if that name is free. Returns whether it now has that name.

        The name is not durable on every store. A store that cannot link now returns False. `data` is the object's
        content, if the caller has it: some stores would otherwise have to read it.
        """
        ...

    async def unlink(self, root: str, path: str) -> None:
        """Delete a name of an object that has another one from `link`. It may be missing."""
        ...

    async def delete(self, root: str, path: str) -> None:
        """Delete one object. It may be missing."""
        ...

    async def delete_many(self, root: str, paths: Sequence[str]) -> None:
        """Delete many objects, and the folders that this leaves empty, the root included. They may be missing."""
        ...

    async def delete_all(self, root: str) -> None:
        """Delete the root and everything below it. It may be missing."""
        ...


class ClientRequest(Protocol):
    """A request to the object store that a client is about to send."""

    @property
    def writes(self) -> bool: ...

    @property
    def url(self) -> str:
        """The first object or prefix that it touches."""
        ...

    def require_within(self, *locations: str) -> None:
        """Raise Forbidden unless everything that the request touches is below these locations."""
        ...


class Delegation(Protocol):
    """How clients that have no key of their own reach the object store."""

    @property
    def locations(self) -> tuple[str, ...]:
        """The locations in the store that this server may use."""
        ...

    @property
    def settings(self) -> StoreSettings | None:
        """Where an S3 store is. Clients know the addresses of the other clouds."""
        ...

    def allows(self, location: str) -> bool:
        """Whether this server may use the location."""
        ...

    async def signs(self) -> bool:
        """Whether this server can sign requests that give access to one table only."""
        ...

    async def vends(self) -> bool:
        """Whether the store issues keys for one table only."""
        ...

    async def vend(self, locations: Sequence[str], *, writes: bool) -> Vended:
        """A key that reads these locations, or also writes them; Unavailable if the store issues none."""
        ...

    async def url_seconds(self, wanted: int) -> int:
        """How long URLs made now can be used: as long as wanted, unless the key that signs them ends before."""
        ...

    async def presign(self, root: str, paths: Sequence[str], *, seconds: int) -> list[str]:
        """URLs that read one object each, for this long, without any other credential."""
        ...

    def parse(
        self, *, method: str, uri: str, headers: Mapping[str, tuple[str, ...]], body: str | None
    ) -> ClientRequest:
        """Parse a request; Forbidden if its effect is unknown."""
        ...

    async def sign(
        self, request: ClientRequest, locations: Sequence[str], *, now_ms: int
    ) -> dict[str, tuple[str, ...]]:
        """The headers that authorise a request from `parse`, signed with a key for these locations only."""
        ...


class ObjectStores(Protocol):
    """The object stores of this server, by location.

    The longest external location that contains a location decides, and otherwise the account from the settings.
    """

    async def find(self, location: str) -> Delegation | None:
        """How clients reach a location. None if this server may not use it, or if it needs no credentials."""
        ...

    async def area_of(self, location: str) -> tuple[Securable, ...]:
        """The external location that contains a location, as the chain that grants on it are checked with."""
        ...

    async def parse(
        self, *, method: str, uri: str, headers: Mapping[str, tuple[str, ...]], body: str | None
    ) -> tuple[Delegation, ClientRequest]:
        """Parse a client's request to one of the stores; Forbidden if it is for none, or if its effect is unknown."""
        ...

    async def locations(self) -> tuple[str, ...]:
        """All locations in object stores that this server may use."""
        ...

    async def sign(self) -> bool:
        """Whether requests to any of the stores are signed for clients."""
        ...

    async def vend(self) -> bool:
        """Whether any of the stores issues keys for clients."""
        ...

    async def require_usable(self, url: str, credential: Securable) -> None:
        """Raise InvalidInput, with the reason, unless the credential opens the folder."""
        ...
