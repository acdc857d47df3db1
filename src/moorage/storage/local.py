"""Objects on the local disk: plain files, opened part by part so that no link leads out of a root."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from moorage.core.errors import InvalidInput, Unavailable
from moorage.storage.confine import require_key
from moorage.storage.folders import (
    content,
    content_at_once,
    exists,
    found,
    linked,
    made_unsynced,
    open_file,
    open_folder,
    opened,
    remove_all,
    walk,
    written_aside,
)
from moorage.storage.port import Listed
from moorage.storage.straight import CAN_SYNC_ALL, enter_straight, make_straight, open_at_once, sync_all

_SMALL = 256 * 1024
_WRITTEN_AT_ONCE = 1024 * 1024
"""Into the page cache, in a quarter of a millisecond: on a busy machine a thread takes longer to begin."""
_MOST_REMEMBERED = 10_000
_FAST_DISK_SECONDS = 0.002
"""What a small file may take on the average before its writing goes to a thread."""


_Make = Callable[[int, str, str], int]
"""Makes a folder in another one unless it is there, and opens it; the last text is the whole path."""


class LocalStorage:
    """Files below the roots that the server was configured with, and nowhere else."""

    def __init__(self, *roots: Path) -> None:
        self.locations = tuple(f"file://{os.path.abspath(root)}/" for root in roots)
        self._roots: dict[str, str] = {}
        """By what locations may begin with, the folder that is meant. Links lead to a root, and nowhere from there."""
        for root in roots:
            real = f"{root.resolve()}/"
            self._roots |= {f"{os.path.abspath(root)}/": real, real: real}
        self._prefixes: dict[str, str] = {}
        """By root, its path on the disk."""
        self._safe_folders: set[str] = set()
        self._disk_seconds = 0.0
        self._lock = threading.Lock()
        self._watched: dict[int, int] = {}
        """By device, a file that was opened before anything was written: it hears of every write that fails."""
        weakref.finalize(self, _close_all, self._watched)
        self._unsynced: set[int] = set()

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        # A thread costs more than a small file in memory, where most are: somebody has just written them.
        data = self._read_at_once(root, path, limit) if limit <= _SMALL else None
        return await asyncio.to_thread(self._read, root, path, limit) if data is None else data

    async def size(self, root: str, path: str) -> int | None:
        return await asyncio.to_thread(self._size, root, path)

    async def is_gone(self, root: str, *paths: str, ask: bool = False) -> bool:
        # On the loop: one look at a name takes microseconds, and a thread would cost many times that.
        return not any(self._exists(root, path) for path in paths)

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        return await asyncio.to_thread(self._list, root, prefix, after)

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._put_new, root, path, data)

    async def put_again(self, root: str, path: str, data: bytes) -> None:
        await asyncio.to_thread(self._put_again, root, path, data)

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        # As the ledger does when it commits: a thread costs more than a fast disk.
        if CAN_SYNC_ALL and len(data) <= _WRITTEN_AT_ONCE and self._disk_seconds < _FAST_DISK_SECONDS:
            return self._put_unique(root, path, data)
        return await asyncio.to_thread(self._put_unique, root, path, data)

    async def sync(self) -> None:
        if self._unsynced:
            await asyncio.to_thread(self._sync)

    async def keep(self, root: str, path: str) -> None:
        await asyncio.to_thread(self._keep, root, path)

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        # On the loop, like is_gone: it writes no bytes and waits for no disk.
        return self._link(root, path, name)

    async def delete(self, root: str, path: str) -> None:
        await asyncio.to_thread(self._delete, root, path)

    async def delete_these(self, root: str, paths: Sequence[str]) -> None:
        await asyncio.to_thread(self._delete_these, root, paths)

    async def delete_all(self, root: str) -> None:
        await asyncio.to_thread(self._delete_all, root)

    def _exists(self, root: str, path: str) -> bool:
        return os.path.lexists(self._whole(root, path))

    def _read_at_once(self, root: str, path: str, limit: int) -> bytes | None:
        file = open_at_once(self._whole(root, path))
        return None if file is None else content_at_once(file, limit)

    def _link(self, root: str, path: str, name: str) -> bool:
        with self._folder(root, path) as (folder, old):
            return folder is not None and linked(old, name, folder)

    # --- on a thread ---------------------------------------------------------------------------

    def _read(self, root: str, path: str, limit: int) -> bytes | None:
        with self._folder(root, path) as (folder, name):
            file = None if folder is None else open_file(name, folder, path)
            return None if file is None else content(file, path, limit)

    def _size(self, root: str, path: str) -> int | None:
        with self._folder(root, path) as (folder, name):
            if folder is None:
                return None
            file = open_file(name, folder, path)
            if file is None:
                return None
            try:
                return os.fstat(file).st_size
            finally:
                os.close(file)

    def _list(self, root: str, prefix: str, after: str) -> tuple[Listed, ...]:
        # The star stands for the rest of a name, so that a prefix which ends with a slash is a path too.
        with self._folder(root, prefix + "*") as (folder, name):
            if folder is None:
                return ()
            stem = name.removesuffix("*")
            return tuple(sorted(walk(folder, prefix.removesuffix(stem), stem, after)))

    def _put_new(self, root: str, path: str, data: bytes) -> bool:
        """Written aside, synced, then linked: the name appears at once, whole, or not at all."""
        with self._folder(root, path, make=self._made) as (folder, name):
            assert folder is not None  # noqa: S101 - where it may be made, there is a folder or an exception
            if exists(name, folder):  # most often it is published already, and the bytes need not be written for it
                return found(name, folder)
            with written_aside(folder, data) as aside:
                try:
                    os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    return found(name, folder)
            os.fsync(folder)
            return True

    def _keep(self, root: str, path: str) -> None:
        with self._folder(root, path, make=self._made) as (folder, name):
            assert folder is not None  # noqa: S101 - as above
            found(name, folder)

    def _put_again(self, root: str, path: str, data: bytes) -> None:
        with self._folder(root, path, make=self._made) as (folder, name):
            assert folder is not None  # noqa: S101 - as above
            with written_aside(folder, data) as aside:
                os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def _put_unique(self, root: str, path: str, data: bytes) -> bool:
        if not CAN_SYNC_ALL:
            if not self._put_new(root, path, data):
                raise Unavailable(f"cannot use {path}: {os.strerror(errno.EEXIST)}")
            return True
        started = time.perf_counter()
        file = make_straight(self._whole(root, path))
        if file is None:
            with self._folder(root, path, make=made_unsynced) as (folder, name):
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        try:
            self._fill(file, data)
        except OSError as error:
            self._delete(root, path)
            raise Unavailable(f"cannot use {path}: {error.strerror}") from error
        self._disk_seconds += (time.perf_counter() - started - self._disk_seconds) / 8
        return False

    def _fill(self, file: int, data: bytes) -> None:
        """Write a new file and close it; its filesystem has to be synced from now on."""
        try:
            device = os.fstat(file).st_dev
            with self._lock:
                if device not in self._watched:
                    self._watched[device] = os.dup(file)
            written = os.write(file, data)
            while written < len(data):
                written += os.write(file, data[written:])
        finally:
            os.close(file)
        with self._lock:
            self._unsynced.add(device)

    def _sync(self) -> None:
        with self._lock:
            devices, self._unsynced = self._unsynced, set()
        for device in devices:
            try:
                sync_all(self._watched[device])
            except OSError as error:
                raise Unavailable(f"what was written lately may not be safe: {error.strerror}") from error

    def _delete(self, root: str, path: str) -> None:
        with self._folder(root, path) as (folder, name):
            if folder is not None:
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(name, dir_fd=folder)

    def _delete_these(self, root: str, paths: Sequence[str]) -> None:
        for path in [require_key(path) for path in paths]:
            self._delete(root, path)
        base, below = self._base(root)
        top = f"{below}/" if below else ""
        left = {folder for path in paths for folder in _folders_of(top + path)}
        for folder in sorted(left, key=len, reverse=True):  # the deeper ones first
            if folder.startswith(below):
                self._delete_empty(base, folder)

    def _delete_empty(self, base: str, path: str) -> None:
        with self._folder(base, path) as (folder, name):
            if folder is not None:
                with suppress(OSError):  # somebody needs it, or it is gone
                    os.rmdir(name, dir_fd=folder)

    def _delete_all(self, root: str) -> None:
        below = self._base(root)
        if not below[1]:
            raise InvalidInput(f"{root!r} is a whole storage root and is never deleted", field="location")
        with self._folder(*below) as (folder, name):
            if folder is not None:
                remove_all(folder, name)

    def _base(self, root: str) -> tuple[str, str]:
        """The configured root that holds this one, and the way down from it."""
        path = root.removeprefix("file://").rstrip("/") + "/"
        for spelled, base in self._roots.items():
            if path.startswith(spelled):
                below = path[len(spelled) :].rstrip("/")
                return base, require_key(below, "location") if below else ""
        raise InvalidInput(f"{root!r} lies outside of the folders that this server may use", field="location")

    def _whole(self, root: str, path: str) -> str:
        """The object's path on the disk; a link may still lead astray there."""
        prefix = self._prefixes.get(root)
        if prefix is None:
            base, below = self._base(root)
            prefix = f"{base}{below}/" if below else base
            if len(self._prefixes) >= _MOST_REMEMBERED:
                self._prefixes.clear()
            self._prefixes[root] = prefix
        return prefix + require_key(path)

    @contextmanager
    def _folder(self, root: str, path: str, *, make: _Make | None = None) -> Iterator[tuple[int | None, str]]:
        """The folder that holds the object, opened without following a link, and the object's name in it."""
        above, _, name = self._whole(root, path).rpartition("/")
        folder = enter_straight(above) if make is None or above in self._safe_folders else None
        try:
            if folder is None:
                folder = self._enter(root, path, make)
            yield folder, name
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidInput(f"a name in the path {path[:80]!r}… is too long", field="path") from error
            raise Unavailable(f"cannot use {path}: {error.strerror}") from error
        finally:
            if folder is not None:
                os.close(folder)

    def _enter(self, root: str, path: str, make: _Make | None) -> int | None:
        """The same folder, part by part."""
        base, below = self._base(root)
        parts = [*(below.split("/") if below else ()), *path.split("/")]
        folder = open_folder(base, None)
        if folder is None and make is not None:
            raise Unavailable(f"the storage folder {base} is gone; is its disk mounted?")
        for depth, part in enumerate(parts[:-1], 1):
            if folder is None:
                break
            whole = base + "/".join(parts[:depth])
            try:
                inner = open_folder(part, folder) if make is None else make(folder, part, whole)
            finally:
                os.close(folder)
            folder = inner
        return folder

    def _made(self, folder: int, part: str, whole: str) -> int:
        """The folder, opened; a power cut will not take it away with what we put into it."""
        if whole in self._safe_folders and (inner := open_folder(part, folder)) is not None:
            return inner
        # Whoever made it may not have synced it yet, so the first of us to meet it does.
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
        os.fsync(folder)
        if len(self._safe_folders) >= _MOST_REMEMBERED:
            self._safe_folders.clear()
        self._safe_folders.add(whole)
        return opened(part, folder)


def _folders_of(path: str) -> Iterator[str]:
    """Every folder on the way to an object."""
    while path := path.rpartition("/")[0]:
        yield path


def _close_all(watched: dict[int, int]) -> None:
    for file in watched.values():
        os.close(file)
