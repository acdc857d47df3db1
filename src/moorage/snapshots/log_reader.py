"""Reads the log of one table: what its folder lists, and the bytes of what is wanted of it."""

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
    hinted_version,
    read_listing,
)
from moorage.snapshots.segments import Step
from moorage.snapshots.table_ref import Ratified, TableRef
from moorage.storage.confine import confine, require_key
from moorage.storage.digests import digest_of
from moorage.storage.port import Listed, Storage

if TYPE_CHECKING:
    from moorage.formats.delta.checkpoints import Piece
    from moorage.formats.delta.replay import LogState
    from moorage.snapshots.states import Read

LARGEST_FILE = 2 * 1024 * 1024 * 1024
_PIECES_AT_ONCE = 4
"""Each is held twice while it is read, packed and unpacked."""


class Gone(Exception):
    """A file that was listed is no longer there: somebody cleans the log. List again."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class LogReader:
    def __init__(self, storage: Storage, ref: TableRef) -> None:
        self._storage = storage
        self._ref = ref

    async def listing(self, *, wanted: int | None = None, whole: bool = False) -> LogFiles:
        """The log's files, from the last checkpoint on where that is enough for the wanted version."""
        hint = None if whole else await self._last_checkpoint()
        if hint is not None and (wanted is None or hint <= wanted):
            log = await self._list(after=f"{LOG}{hint:020}")
            if any(wanted is None or version <= wanted for version in log.checkpoints):
                return log
        return await self._list(after="")

    async def _list(self, *, after: str) -> LogFiles:
        listed = await self._storage.list(self._ref.root, LOG, after=after)
        return await asyncio.to_thread(read_listing, listed, latest=self._ref.latest)

    async def _last_checkpoint(self) -> int | None:
        """A hint, no more: it may be old, broken or missing, and then the whole folder is listed."""
        data = await self._storage.read(self._ref.root, LAST_CHECKPOINT, limit=LARGEST_FILE)
        return None if data is None else hinted_version(data)

    async def read(self, step: Step) -> Read:
        """The bytes of a commit; Gone if it was listed and is no longer there."""
        from moorage.snapshots.states import Read

        if isinstance(step.source, Ratified):
            return Read(step.version, await self._ratified(step.source), f"ratified version {step.version}")
        return Read(step.version, await self._bytes(step.source.path), step.source.path)

    async def checkpoint(self, checkpoint: Checkpoint) -> LogState:
        """The state that a checkpoint holds, its sidecars read too."""
        from moorage.snapshots.states import starting_state

        pieces = await self._pieces([file.path for file in checkpoint.files])
        sidecars = [_sidecar_path(sidecar.path, self._ref.root) for piece in pieces for sidecar in piece.sidecars]
        pieces += await self._pieces(sidecars)
        return await asyncio.to_thread(starting_state, checkpoint.version, pieces, checkpoint.files[0].path)

    async def _pieces(self, paths: list[str]) -> list[Piece]:
        from moorage.snapshots.states import read_piece

        turn = asyncio.Semaphore(_PIECES_AT_ONCE)

        async def piece(path: str) -> Piece:
            async with turn:
                return await asyncio.to_thread(read_piece, await self._bytes(path), path, self._ref.root)

        return await asyncio.gather(*(piece(path) for path in paths))

    async def _bytes(self, path: str) -> bytes:
        data = await self._storage.read(self._ref.root, path, limit=LARGEST_FILE)
        if data is None:
            raise Gone(path)
        return data

    async def _ratified(self, commit: Ratified) -> bytes:
        """From the ledger, from where it was staged, or by now from its final name."""
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
            raise Gone(path)
        raise Damaged(
            f"version {commit.version} of table {self._ref.id} is not what was ratified",
            table=self._ref.id,
            version=commit.version,
        )


async def _is_ratified(data: bytes, commit: Ratified) -> bool:
    if commit.size not in (None, len(data)):
        return False
    return commit.digest is None or commit.digest == await digest_of(data)


def published(version: int) -> Listed:
    """A commit by the name that it must have, for a table whose versions we know without listing."""
    return Listed(commit_path(version), 0, 0)


def _sidecar_path(path: str, root: str) -> str:
    """Sidecars are named by their file name, or by a path that must lead into their folder."""
    if "/" not in unquote(path):
        return SIDECARS + require_key(unquote(path))
    found = confine(root, path)
    if not found.startswith(SIDECARS):
        raise Damaged(f"a checkpoint names the sidecar {path!r}, which is not in {SIDECARS}")
    return found
