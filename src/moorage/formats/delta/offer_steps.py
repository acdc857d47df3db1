"""The steps of an offer that compute, as functions of documents. Pure.

They run in another process: bytes in, and out what the server needs. Files of the table are passed as an Arrow stream.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from moorage.core.rewrites import Rewritten
from moorage.formats.delta.actions import Metadata, SetTransaction
from moorage.formats.delta.file_actions import AddFile
from moorage.formats.delta.offers import (
    Dropped,
    Target,
    Translation,
    input_paths,
    new_sizes,
    read_shadow_commit,
    translate,
)
from moorage.formats.delta.row_changes import read_row_change, translate_change
from moorage.formats.delta.shadow import TableSide, shadow_log


class Offered(msgspec.Struct, frozen=True, kw_only=True):
    """What Spark committed to a shadow, without the actions of its files."""

    inputs: tuple[str, ...]
    """The files of the table that it removes, by their absolute, decoded paths."""
    new_files: tuple[tuple[str, int, bool], ...]
    """The files that Spark wrote: path in the shadow's folder, bytes, and whether it may have more bytes."""
    transactions: tuple[SetTransaction, ...] = ()
    is_empty: bool
    is_blind_append: bool = False


class Translated(msgspec.Struct, frozen=True, kw_only=True):
    """A commit of the real table, without the actions of its files."""

    data: bytes
    rewritten: Rewritten
    left_out: tuple[str, ...]
    reason: str | None


def read_rewrite(data: bytes, root: str) -> Offered:
    """Read the rewrite in a shadow. InvalidInput if its commit is more than that."""
    commit = read_shadow_commit(data)
    return Offered(
        inputs=tuple(input_paths(commit.removed, root)),
        new_files=tuple(new_sizes(commit.added)),
        is_empty=not commit.removed,
    )


def translate_rewrite(data: bytes, files: bytes, to: Target) -> Translated | Dropped:
    """The rewrite in a shadow as a commit of the real table. `files` are those of its head that the rewrite removes."""
    return _without_files(translate(read_shadow_commit(data), _unpacked(files), to))


def read_change(data: bytes, root: str) -> Offered:
    """Read the change of rows in a shadow. InvalidInput if its commit is more than that."""
    change = read_row_change(data)
    return Offered(
        inputs=tuple(input_paths(change.removed, root)),
        new_files=tuple(change.new_sizes()),
        transactions=change.transactions,
        is_empty=change.is_empty,
        is_blind_append=change.is_blind_append,
    )


def translate_row_change(
    data: bytes, files: bytes, to: Target, metadata: Metadata, also: SetTransaction | None
) -> Translated | Dropped:
    """The change of rows in a shadow as a commit of the real table. `files` are those that the change removes."""
    return _without_files(translate_change(read_row_change(data), _unpacked(files), to, metadata, also))


def log_of_shadow(files: bytes, table: TableSide, root: str) -> bytes:
    """The log of a shadow with these files."""
    return shadow_log(table, _unpacked(files), root)


def _unpacked(files: bytes) -> list[AddFile]:
    # Not at the start: this imports Arrow, which a server loads when it reads its first table.
    from moorage.formats.delta.replay import to_files, unpacked

    return to_files(unpacked(files))


def _without_files(found: Translation | Dropped) -> Translated | Dropped:
    if isinstance(found, Dropped):
        return found
    rewritten = Rewritten(
        files_removed=len(found.removed),
        bytes_removed=_total(found.removed),
        files_added=len(found.added),
        bytes_added=_total(found.added),
    )
    return Translated(data=found.data, rewritten=rewritten, left_out=found.left_out, reason=found.reason)


def _total(files: Iterable[AddFile]) -> int:
    return sum(file.size for file in files)
