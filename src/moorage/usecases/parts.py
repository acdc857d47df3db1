"""Prepared changes: what a use case decided, before it becomes an entry of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import msgspec

from moorage.core.entries import Attachment, Change, Done, Expect, IdempotencyKey, NewJob
from moorage.core.securables import Securable


class File(msgspec.Struct, frozen=True):
    """A file in storage."""

    root: str
    path: str


class NewFile(File, frozen=True):
    """A file that an entry refers to, under a name that is used only once."""

    data: bytes
    is_in_ledger: bool = False
    """Whether the draft contains its bytes. Then the file need not be durable before the append: the entry is."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One prepared operation. `before` is the object that it changes, for the response.

    Its files are written when all parts of the draft are decided, and deleted if the draft is refused. Its obsolete
    files are deleted after the append.
    """

    expects: tuple[Expect, ...] = ()
    changes: tuple[Change, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    files: tuple[NewFile, ...] = ()
    obsolete: tuple[File, ...] = ()
    keys: tuple[IdempotencyKey, ...] = ()
    """Idempotency keys of further requests that it carries out. If one was used before, `carry_out` raises
    Stale(KeysFree)."""
    done: Done = Done()
    before: Securable | None = None
    result: Any = None
    """What the use case builds its response from if this attempt succeeds."""

    @property
    def is_replay(self) -> bool:
        """Whether a part that would make a version changes nothing, because that version is history already."""
        return not self.changes


def join(parts: Sequence[Part]) -> Part:
    """All parts as one, in their order."""
    return Part(
        expects=tuple(chain.from_iterable(part.expects for part in parts)),
        changes=tuple(chain.from_iterable(part.changes for part in parts)),
        jobs=tuple(chain.from_iterable(part.jobs for part in parts)),
        attachments=tuple(chain.from_iterable(part.attachments for part in parts)),
        files=tuple(chain.from_iterable(part.files for part in parts)),
        obsolete=tuple(chain.from_iterable(part.obsolete for part in parts)),
        keys=tuple(chain.from_iterable(part.keys for part in parts)),
        done=Done(
            ids=tuple(chain.from_iterable(part.done.ids for part in parts)),
            versions=tuple(chain.from_iterable(part.done.versions for part in parts)),
            missing=tuple(chain.from_iterable(part.done.missing for part in parts)),
        ),
    )
