"""Reads the log of one table: the listing of its folder, and the bytes of its files."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import unquote

from moorage.core.errors import Damaged
from moorage.snapshots.log_files import (
    LAST_CHECKPOINT,
    LOG,
    SIDECARS,
    Checkpoint,
    LogFiles,
    commit_path,
    parse_checkpoint_hint,
    read_listing,
)
from moorage.snapshots.segments import Step
from moorage.snapshots.table_ref import Ratified, TableRef
from moorage.storage.confine import confine, require_key
from moorage.storage.digests import digest_of
from moorage.storage.port import Listed, Storage

if TYPE_CHECKING:
    from moorage.formats.delta.checkpoints import Piece
    from moorage.formats.delta.file_actions import RemoveFile
    from moorage.formats.delta.replay import LogState
    from moorage.snapshots.states import Read

LARGEST_FILE = 2 * 1024 * 1024 * 1024
_FEW_FILES = 32
"""So many names are classified faster than a thread is started."""
_PARALLEL_PIECES = 4
"""Each piece is in memory twice while it is read: compressed and decompressed."""


class FileMissing(Exception):
    """A listed file no longer exists, because another process cleans up the log. List the folder again."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class LogReader:
    def __init__(self, storage: Storage, ref: TableRef) -> None:
        self._storage = storage
        self._ref = ref

    async def listing(self, *, wanted: int | None = None, whole: bool = False) -> LogFiles:
        """List the log's files, starting at the last checkpoint if that suffices for the wanted version."""
        hint = None if whole else await self._last_checkpoint()
        if hint is not None and (wanted is None or hint <= wanted):
            log = await self.listing_from(hint)
            if any(wanted is None or version <= wanted for version in log.checkpoints):
                return log
        return await self._list(after="")

    async def listing_from(self, version: int) -> LogFiles:
        """List the log's files of a version and of newer ones."""
        return await self._list(after=f"{LOG}{version:020}")

    async def _list(self, *, after: str) -> LogFiles:
        listed = await self._storage.list(self._ref.root, LOG, after=after)
        if len(listed) <= _FEW_FILES:
            return read_listing(listed, latest=self._ref.latest)
        return await asyncio.to_thread(read_listing, listed, latest=self._ref.latest)

    async def _last_checkpoint(self) -> int | None:
        """Read the hint. It may be old, damaged or missing; then the whole folder is listed."""
        data = await self._storage.read(self._ref.root, LAST_CHECKPOINT, limit=LARGEST_FILE)
        return None if data is None else parse_checkpoint_hint(data)

    async def read(self, step: Step) -> Read:
        """Read the bytes of a commit. Raises FileMissing if the file no longer exists."""
        from moorage.snapshots.states import Read

        if isinstance(step.source, Ratified):
            return Read(step.version, await self._ratified(step.source), f"ratified version {step.version}")
        return Read(step.version, await self._bytes(step.source.path), step.source.path)

    async def checkpoint(self, checkpoint: Checkpoint) -> LogState:
        """Read the state of a checkpoint, including its sidecars."""
        from moorage.snapshots.states import starting_state

        pieces = await self._pieces([file.path for file in checkpoint.files])
        pieces += await self._pieces(self._sidecars_in(pieces))
        return await asyncio.to_thread(starting_state, checkpoint.version, pieces, checkpoint.files[0].path)

    async def sidecars(self, checkpoint: Checkpoint) -> set[str]:
        """The paths of the sidecars that a checkpoint names."""
        return set(self._sidecars_in(await self._pieces([file.path for file in checkpoint.files])))

    def _sidecars_in(self, pieces: list[Piece]) -> list[str]:
        return [_sidecar_path(sidecar.path, self._ref.root) for piece in pieces for sidecar in piece.sidecars]

    async def tombstones(self, checkpoint: Checkpoint) -> dict[str, RemoveFile]:
        """The removed files that a checkpoint still names, by key. One in JSON names them only in its sidecars."""
        from moorage.formats.delta.new_checkpoints import read_tombstones

        own = [file.path for file in checkpoint.files if file.path.endswith(".parquet")]
        found: dict[str, RemoveFile] = {}
        for path in (*own, *sorted(await self.sidecars(checkpoint))):
            found |= await asyncio.to_thread(read_tombstones, await self._bytes(path), path)
        return found

    async def _pieces(self, paths: list[str]) -> list[Piece]:
        from moorage.snapshots.states import read_piece

        slots = asyncio.Semaphore(_PARALLEL_PIECES)

        async def piece(path: str) -> Piece:
            async with slots:
                return await asyncio.to_thread(read_piece, await self._bytes(path), path, self._ref.root)

        return await asyncio.gather(*(piece(path) for path in paths))

    async def _bytes(self, path: str) -> bytes:
        data = await self._storage.read(self._ref.root, path, limit=LARGEST_FILE)
        if data is None:
            raise FileMissing(path)
        return data

    async def _ratified(self, commit: Ratified) -> bytes:
        """Read a ratified commit: from the ledger, from its staged file, or from its published file."""
        data = commit.data
        if data is None and commit.path is not None:
            data = await self._storage.read(self._ref.root, require_key(commit.path), limit=LARGEST_FILE)
        if data is not None and await _is_ratified(data, commit):
            return data
        path = commit_path(commit.version)
        published = await self._storage.read(self._ref.root, path, limit=LARGEST_FILE)
        if published is not None and await _is_ratified(published, commit):
            return published
        if data is None and published is None:
            raise FileMissing(path)
        raise Damaged(
            f"the file of version {commit.version} of table {self._ref.id} differs from the ratified commit",
            table=self._ref.id,
            version=commit.version,
        )


async def _is_ratified(data: bytes, commit: Ratified) -> bool:
    if commit.size not in (None, len(data)):
        return False
    return commit.digest is None or commit.digest == await digest_of(data)


def published_commit(version: int) -> Listed:
    """Return a commit file by its name, without a listing, for a table with versions known from the ledger."""
    return Listed(commit_path(version), 0, 0)


def _sidecar_path(path: str, root: str) -> str:
    """Resolve a sidecar, which is given by its file name or by a path that must be in the sidecar folder."""
    if "/" not in unquote(path):
        return SIDECARS + require_key(unquote(path))
    found = confine(root, path)
    if not found.startswith(SIDECARS):
        raise Damaged(f"a checkpoint names the sidecar {path!r}, which is not in {SIDECARS}")
    return found
