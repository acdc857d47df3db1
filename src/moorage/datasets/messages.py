"""The messages that the server and a worker process exchange through their pipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version and the path of its manifest. Lance's paths start at the store's root, without a leading slash."""

    version: int
    manifest_path: str
    manifest_size: int | None = None


class StagedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest that pylance has staged as the table's next version."""

    version: int
    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    naming_scheme: str | None = None
    branch: str | None = None
    rows: dict[str, int] = {}
    """The number of rows `inserted`, `updated` or `deleted`, if known before the commit."""


class Versions(Protocol):
    """The versions of one table, as one caller may see and add them."""

    async def newest(self, branch: str | None) -> Manifest | None:
        """Return the head of a line, or None if the line has no versions."""
        ...

    async def at(self, branch: str | None, version: int) -> Manifest:
        """Return one version of a line. Raises VersionNotFound if it does not exist."""
        ...

    async def add(self, staged: StagedManifest) -> Manifest:
        """Add the next version. Raises VersionTaken if another writer added it; it can then be read immediately."""
        ...


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A function to run on the table at a location. Pickle sends the function by its name."""

    location: str
    store: Mapping[str, str] | None = None
    """pylance's storage options for an object store, or None for the local disk."""
    work: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class Question(msgspec.Struct, frozen=True):
    """A call of a method of Versions, which a worker sends during a job."""

    method: Literal["newest", "at", "add"]
    args: tuple[Any, ...]


READY: Final = "ready"
"""The first message of a worker, sent when it has loaded pylance."""
