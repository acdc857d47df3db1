"""What the server and a worker say to each other through their pipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from moorage.core.errors import MoorageError


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version and where its manifest lies, as Lance spells paths: from the store's root, no slash in front."""

    version: int
    manifest_path: str
    manifest_size: int | None = None


class StagedManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The next version that pylance asks for."""

    version: int
    manifest_path: str
    manifest_size: int | None = None
    e_tag: str | None = None
    naming_scheme: str | None = None
    branch: str | None = None
    rows: dict[str, int] = {}
    """How many rows it has `inserted`, `updated` or `deleted`, where that is known before it is committed."""


class Versions(Protocol):
    """The versions of one table, for one caller."""

    async def newest(self, branch: str | None) -> Manifest | None:
        """The head of a line, or None if the line has no versions."""
        ...

    async def at(self, branch: str | None, version: int) -> Manifest:
        """VersionNotFound if there is none."""
        ...

    async def add(self, staged: StagedManifest) -> Manifest:
        """VersionTaken if somebody was faster; then that version can be read at once."""
        ...


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Work on the table at a location. The function travels by its name."""

    location: str
    store: Mapping[str, str] | None = None
    """How pylance reaches an object store; nothing for a disk."""
    work: Callable[..., Any]
    given: tuple[Any, ...]
    named: Mapping[str, Any]


class Question(msgspec.Struct, frozen=True):
    """A method of Versions, asked while a job is being done."""

    method: Literal["newest", "at", "add"]
    given: tuple[Any, ...]


class Done(msgspec.Struct, frozen=True):
    """The end of a job, or the answer to a question."""

    result: Any


class Refused(msgspec.Struct, frozen=True):
    """An error of our own tree, in either direction."""

    error: MoorageError


READY: Final = "ready"
"""The first word of a worker, once it has loaded what it needs."""


class Failed(msgspec.Struct, frozen=True):
    """The job ended in a way that nobody foresaw; the text is for the log."""

    traceback: str
