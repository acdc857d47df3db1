"""Objects as files on the local disk. Paths are opened without following links, so none leads out of a root."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from moorage.core.errors import InvalidInput, Unavailable
from moorage.storage.confine import require_key
from moorage.storage.folders import (
    exists,
    link_file,
    make_unsynced_folder,
    open_file,
    open_folder,
    read_file,
    read_file_if_cached,
    remove_all,
    require_folder,
    sync_existing,
    temporary_file,
    walk,
)
from moorage.storage.linux_calls import (
    CAN_SYNC_ALL,
    create_file_without_links,
    open_folder_without_links,
    open_if_cached,
    sync_all,
)
from moorage.storage.local_batches import BatchWriter
from moorage.storage.port import Listed, NewObject, Placed

_MOST_READ_INLINE = 256 * 1024
_MOST_WRITTEN_INLINE = 1024 * 1024
"""Writing this much to the page cache takes a quarter of a millisecond. On a busy machine a thread starts later."""
_MOST_CACHED = 10_000
_FAST_DISK_SECONDS = 0.002
"""If writing a small file takes longer than this on average, it is done on a thread."""


_Make = Callable[[int, str, str], int]
"""Opens a folder in another one, and makes it if it is missing. The last argument is the whole path."""


class LocalStorage:
    """Files below the roots that the server was configured with. All other locations are refused."""

    def __init__(self, *roots: Path) -> None:
        self.locations = tuple(f"file://{os.path.abspath(root)}/" for root in roots)
        self._roots: dict[str, str] = {}
        """Resolved folder by the prefix of a location. A root itself may be a link; links below a root are refused."""
        for root in roots:
            real = f"{root.resolve()}/"
            self._roots |= {f"{os.path.abspath(root)}/": real, real: real}
        self._prefixes: dict[str, str] = {}
        """Path on the disk, by root."""
        self._durable_folders: set[str] = set()
        self._disk_seconds = 0.0
        self._lock = threading.Lock()
        self._watched: dict[int, int] = {}
        """An open file by device. It is opened before the first write, so that syncfs reports every failed write."""
        weakref.finalize(self, _close_all, self._watched)
        self._unsynced: set[int] = set()
        self._batches = BatchWriter(partial(self._folder, make=self._make_durable_folder))
        self._batch = asyncio.Lock()

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        # Most small files were written moments ago and are in memory; a thread costs more than reading one.
        data = self._read_if_cached(root, path, limit) if limit <= _MOST_READ_INLINE else None
        return await asyncio.to_thread(self._read, root, path, limit) if data is None else data

    async def read_range(self, root: str, path: str, *, start: int, end: int) -> bytes | None:
        return await asyncio.to_thread(self._read_range, root, path, start, end)

    async def size(self, root: str, path: str) -> int | None:
        return await asyncio.to_thread(self._size, root, path)

    async def is_missing(self, root: str, *paths: str, remote: bool = False) -> bool:
        # Runs on the event loop: looking up a name takes microseconds, and a thread costs many times that.
        return not any(self._exists(root, path) for path in paths)

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        return await asyncio.to_thread(self._list, root, prefix, after)

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._put_new, root, path, data)

    async def put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        if not objects:
            return []
        async with self._batch:
            return await asyncio.to_thread(self._put_all_new, objects)

    async def overwrite(self, root: str, path: str, data: bytes) -> None:
        await asyncio.to_thread(self._put_again, root, path, data)

    async def put_unique(self, root: str, path: str, data: bytes) -> bool:
        # Runs on the event loop, as commits of the ledger do: a thread costs more than a write to a fast disk.
        if CAN_SYNC_ALL and len(data) <= _MOST_WRITTEN_INLINE and self._disk_seconds < _FAST_DISK_SECONDS:
            return self._put_unique(root, path, data)
        return await asyncio.to_thread(self._put_unique, root, path, data)

    async def sync(self) -> None:
        if self._unsynced:
            await asyncio.to_thread(self._sync)

    async def make_durable(self, root: str, path: str) -> None:
        await asyncio.to_thread(self._make_durable, root, path)

    async def link(self, root: str, path: str, name: str, *, data: bytes | None = None) -> bool:
        # Runs on the event loop, like is_missing: it writes no bytes and does not wait for the disk.
        return self._link(root, path, name)

    async def unlink(self, root: str, path: str) -> None:
        # Runs on the event loop: the file keeps another name, so no bytes are freed.
        self._delete(root, path)

    async def delete(self, root: str, path: str) -> None:
        await asyncio.to_thread(self._delete, root, path)

    async def delete_many(self, root: str, paths: Sequence[str]) -> None:
        await asyncio.to_thread(self._delete_these, root, paths)

    async def delete_all(self, root: str) -> None:
        await asyncio.to_thread(self._delete_all, root)

    def _exists(self, root: str, path: str) -> bool:
        # Not lexists: the exception that it discards for a missing file costs half of the lookup.
        return os.access(self._disk_path(root, path), os.F_OK, follow_symlinks=False)

    def _read_if_cached(self, root: str, path: str, limit: int) -> bytes | None:
        file = open_if_cached(self._disk_path(root, path))
        return None if file is None else read_file_if_cached(file, limit)

    def _link(self, root: str, path: str, name: str) -> bool:
        with self._folder(root, path) as (folder, old):
            if folder is None or not link_file(old, name, folder):
                return False
            if CAN_SYNC_ALL:
                self._mark_unsynced(folder)
            else:
                sync_existing(name, folder)
            return True

    # --- on a thread ---------------------------------------------------------------------------

    def _read(self, root: str, path: str, limit: int) -> bytes | None:
        with self._folder(root, path) as (folder, name):
            file = None if folder is None else open_file(name, folder, path)
            return None if file is None else read_file(file, path, limit)

    def _read_range(self, root: str, path: str, start: int, end: int) -> bytes | None:
        with self._opened(root, path) as file:
            return None if file is None else os.pread(file, max(0, end - start), start)

    def _size(self, root: str, path: str) -> int | None:
        with self._opened(root, path) as file:
            return None if file is None else os.fstat(file).st_size

    @contextmanager
    def _opened(self, root: str, path: str) -> Iterator[int | None]:
        """Open an object for reading; None if it does not exist."""
        with self._folder(root, path) as (folder, name):
            file = None if folder is None else open_file(name, folder, path)
            try:
                yield file
            finally:
                if file is not None:
                    os.close(file)

    def _list(self, root: str, prefix: str, after: str) -> tuple[Listed, ...]:
        # The star is a placeholder for the rest of the name. With it, a prefix that ends with a slash is a valid path.
        with self._folder(root, prefix + "*") as (folder, name):
            if folder is None:
                return ()
            stem = name.removesuffix("*")
            return tuple(sorted(walk(folder, prefix.removesuffix(stem), stem, after)))

    def _put_new(self, root: str, path: str, data: bytes) -> bool:
        """Write a temporary file, sync it, then link it: the name appears with all its bytes or not at all."""
        with self._folder(root, path, make=self._make_durable_folder) as (folder, name):
            assert folder is not None  # noqa: S101 - with `make`, _folder yields a folder or raises
            if exists(name, folder):  # most often the file is published already, and no bytes need to be written
                return sync_existing(name, folder)
            with temporary_file(folder, data) as temporary:
                try:
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    return sync_existing(name, folder)
            os.fsync(folder)
            return True

    def _put_all_new(self, objects: Sequence[NewObject]) -> Sequence[Placed]:
        if CAN_SYNC_ALL:
            return self._batches.put_all_new(objects)
        placed = []
        for each in objects:
            is_free = Placed.OTHER not in placed
            placed.append(Placed.NEW if is_free and self._put_new(each.root, each.path, each.data) else Placed.OTHER)
        return placed

    def _make_durable(self, root: str, path: str) -> None:
        with self._folder(root, path, make=self._make_durable_folder) as (folder, name):
            assert folder is not None  # noqa: S101 - as above
            sync_existing(name, folder)

    def _put_again(self, root: str, path: str, data: bytes) -> None:
        with self._folder(root, path, make=self._make_durable_folder) as (folder, name):
            assert folder is not None  # noqa: S101 - as above
            with temporary_file(folder, data) as temporary:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            os.fsync(folder)

    def _put_unique(self, root: str, path: str, data: bytes) -> bool:
        if not CAN_SYNC_ALL:
            if not self._put_new(root, path, data):
                raise Unavailable(f"cannot use {path}: {os.strerror(errno.EEXIST)}")
            return True
        started = time.perf_counter()
        file = create_file_without_links(self._disk_path(root, path))
        if file is None:
            with self._folder(root, path, make=make_unsynced_folder) as (folder, name):
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
        try:
            self._fill(file, data)
        except OSError as error:
            self._delete(root, path)
            raise Unavailable(f"cannot use {path}: {error.strerror}") from error
        self._disk_seconds += (time.perf_counter() - started - self._disk_seconds) / 8
        return False

    def _fill(self, file: int, data: bytes) -> None:
        """Write a new file and close it."""
        try:
            self._watch(file)
            written = os.write(file, data)
            while written < len(data):
                written += os.write(file, data[written:])
            self._mark_unsynced(file)
        finally:
            os.close(file)

    def _watch(self, file: int) -> int:
        """Keep a file of a filesystem open. Returns the device of the filesystem."""
        device = os.fstat(file).st_dev
        with self._lock:
            if device not in self._watched:
                self._watched[device] = os.dup(file)
        return device

    def _mark_unsynced(self, file: int) -> None:
        """Let `sync` sync the filesystem of an open file or folder."""
        device = self._watch(file)
        with self._lock:
            self._unsynced.add(device)

    def _sync(self) -> None:
        with self._lock:
            devices, self._unsynced = self._unsynced, set()
        for device in devices:
            try:
                sync_all(self._watched[device])
            except OSError as error:
                raise Unavailable(f"files written recently may not be durable: {error.strerror}") from error

    def _delete(self, root: str, path: str) -> None:
        with self._folder(root, path) as (folder, name):
            if folder is not None:
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(name, dir_fd=folder)

    def _delete_these(self, root: str, paths: Sequence[str]) -> None:
        for path in [require_key(path) for path in paths]:
            self._delete(root, path)
        base, below = self._configured_root(root)
        top = f"{below}/" if below else ""
        left = {folder for path in paths for folder in _folders_of(top + path)}
        for folder in sorted(left, key=len, reverse=True):  # the deeper ones first
            if folder.startswith(below):
                self._delete_empty(base, folder)

    def _delete_empty(self, base: str, path: str) -> None:
        with self._folder(base, path) as (folder, name):
            if folder is not None:
                with suppress(OSError):  # it is not empty, or is already deleted
                    os.rmdir(name, dir_fd=folder)

    def _delete_all(self, root: str) -> None:
        below = self._configured_root(root)
        if not below[1]:
            raise InvalidInput(f"{root!r} is a storage root of this server and cannot be deleted", field="location")
        with self._folder(*below) as (folder, name):
            if folder is not None:
                remove_all(folder, name)

    def _configured_root(self, root: str) -> tuple[str, str]:
        """Return the configured root that contains this one, and the relative path between them."""
        path = root.removeprefix("file://").rstrip("/") + "/"
        for prefix, base in self._roots.items():
            if path.startswith(prefix):
                below = path[len(prefix) :].rstrip("/")
                return base, require_key(below, "location") if below else ""
        raise InvalidInput(f"{root!r} is outside the folders that this server may use", field="location")

    def _disk_path(self, root: str, path: str) -> str:
        """Return the object's path on the disk. It may still contain links."""
        prefix = self._prefixes.get(root)
        if prefix is None:
            base, below = self._configured_root(root)
            prefix = f"{base}{below}/" if below else base
            if len(self._prefixes) >= _MOST_CACHED:
                self._prefixes.clear()
            self._prefixes[root] = prefix
        return prefix + require_key(path)

    @contextmanager
    def _folder(self, root: str, path: str, *, make: _Make | None = None) -> Iterator[tuple[int | None, str]]:
        """Open the folder of an object without following links; yield the folder and the object's name in it."""
        above, _, name = self._disk_path(root, path).rpartition("/")
        folder = open_folder_without_links(above) if make is None or above in self._durable_folders else None
        try:
            if folder is None:
                folder = self._open_by_parts(root, path, make)
            yield folder, name
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidInput(
                    f"the path {path[:80]!r}… has a name that is too long for this filesystem", field="path"
                ) from error
            raise Unavailable(f"cannot use {path}: {error.strerror}") from error
        finally:
            if folder is not None:
                os.close(folder)

    def _open_by_parts(self, root: str, path: str, make: _Make | None) -> int | None:
        """Open the folder of an object part by part."""
        base, below = self._configured_root(root)
        parts = [*(below.split("/") if below else ()), *path.split("/")]
        folder = open_folder(base, None)
        if folder is None and make is not None:
            raise Unavailable(f"the storage folder {base} does not exist; check that its disk is mounted")
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

    def _make_durable_folder(self, folder: int, part: str, whole: str) -> int:
        """Open the folder, make it if it is missing, and make its name durable, so that files in it survive."""
        if whole in self._durable_folders and (inner := open_folder(part, folder)) is not None:
            return inner
        # Another process may have made the folder without syncing its name, so sync it on first use in any case.
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
        os.fsync(folder)
        if len(self._durable_folders) >= _MOST_CACHED:
            self._durable_folders.clear()
        self._durable_folders.add(whole)
        return require_folder(part, folder)


def _folders_of(path: str) -> Iterator[str]:
    """Yield every parent folder of an object."""
    while path := path.rpartition("/")[0]:
        yield path


def _close_all(watched: dict[int, int]) -> None:
    for file in watched.values():
        os.close(file)
