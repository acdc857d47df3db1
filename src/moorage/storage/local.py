"""Objects on the local disk: plain files, opened part by part so that no link leads out of a root."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast
from uuid import uuid4

from moorage.core.errors import InvalidInput, TooLarge, Unavailable
from moorage.storage.confine import require_key
from moorage.storage.port import Listed
from moorage.storage.straight import open_straight

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SMALL = 256 * 1024
_MISSING = {errno.ENOENT, errno.ENOTDIR}
_NO_LINKS = {errno.ENOENT, errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP}
"""There is nothing to link, or the disk cannot."""
_MOST_REMEMBERED = 10_000
_FAST_DISK_SECONDS = 0.002
"""What a small file may take on the average before its writing goes to a thread."""


class LocalStorage:
    """Files below the roots that the server was configured with, and nowhere else."""

    def __init__(self, *roots: Path) -> None:
        self._roots = tuple(f"{root.resolve()}/" for root in roots)
        self._safe_folders: set[str] = set()
        self._disk_seconds = 0.0

    async def read(self, root: str, path: str, *, limit: int) -> bytes | None:
        # A thread costs more than a small file, which is in the page cache: somebody has just written it.
        if limit <= _SMALL:
            return self._read(root, path, limit)
        return await asyncio.to_thread(self._read, root, path, limit)

    async def size(self, root: str, path: str) -> int | None:
        return await asyncio.to_thread(self._size, root, path)

    async def is_gone(self, root: str, path: str) -> bool:
        # On the loop: one look at a name takes microseconds, and a thread would cost many times that.
        return self._is_gone(root, path)

    async def list(self, root: str, prefix: str, *, after: str = "") -> tuple[Listed, ...]:
        return await asyncio.to_thread(self._list, root, prefix, after)

    async def put_new(self, root: str, path: str, data: bytes) -> bool:
        return await asyncio.to_thread(self._put_new, root, path, data)

    async def put_unique(self, root: str, path: str, data: bytes) -> None:
        # As the ledger does when it commits: a thread costs more than a fast disk.
        if len(data) <= _SMALL and self._disk_seconds < _FAST_DISK_SECONDS:
            self._put_unique(root, path, data)
        else:
            await asyncio.to_thread(self._put_unique, root, path, data)

    async def link(self, root: str, path: str, name: str) -> bool:
        # On the loop, like is_gone: it writes no bytes and waits for no disk.
        return self._link(root, path, name)

    async def delete(self, root: str, path: str) -> None:
        await asyncio.to_thread(self._delete, root, path)

    async def delete_all(self, root: str) -> None:
        await asyncio.to_thread(self._delete_all, root)

    def _is_gone(self, root: str, path: str) -> bool:
        return not os.path.lexists(self._whole(root, path))

    def _link(self, root: str, path: str, name: str) -> bool:
        above, _, old = self._whole(root, path).rpartition("/")
        folder = open_straight(above)
        if folder is None:
            with self._folder(root, path) as (slowly_opened, _):
                return slowly_opened is not None and _linked(old, name, slowly_opened)
        try:
            return _linked(old, name, folder)
        finally:
            os.close(folder)

    # --- on a thread ---------------------------------------------------------------------------

    def _read(self, root: str, path: str, limit: int) -> bytes | None:
        file = open_straight(self._whole(root, path))
        if file is not None:
            try:
                return _content(file, path, limit)
            except OSError as error:
                raise Unavailable(f"cannot use {path}: {error.strerror}") from error
        with self._folder(root, path) as (folder, name):
            file = None if folder is None else _open_file(name, folder, path)
            return None if file is None else _content(file, path, limit)

    def _size(self, root: str, path: str) -> int | None:
        with self._folder(root, path) as (folder, name):
            if folder is None:
                return None
            file = _open_file(name, folder, path)
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
            return tuple(sorted(_walk(folder, prefix.removesuffix(stem), stem, after)))

    def _put_new(self, root: str, path: str, data: bytes) -> bool:
        """Written aside, synced, then linked: the name appears at once, whole, or not at all."""
        with self._folder(root, path, make=True) as (folder, name):
            assert folder is not None  # noqa: S101 - with make=True there is a folder or an exception
            if _exists(name, folder):  # most often it is published already, and the bytes need not be written for it
                return _found(name, folder)
            aside = f".{uuid4().hex}.tmp"
            file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
            try:
                with open(file, "wb") as stream:
                    stream.write(data)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.link(aside, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            except FileExistsError:
                return _found(name, folder)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(aside, dir_fd=folder)
            os.fsync(folder)
            return True

    def _put_unique(self, root: str, path: str, data: bytes) -> None:
        started = time.perf_counter()
        with self._folder(root, path, make=True) as (folder, name):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
            try:
                with open(file, "wb", buffering=0) as stream:
                    written = 0
                    while written < len(data):
                        written += stream.write(data[written:] if written else data)
                    os.fsync(file)
                os.fsync(cast(int, folder))
            except OSError:
                os.unlink(name, dir_fd=folder)
                raise
        self._disk_seconds += (time.perf_counter() - started - self._disk_seconds) / 8

    def _delete(self, root: str, path: str) -> None:
        with self._folder(root, path) as (folder, name):
            if folder is not None:
                with suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(name, dir_fd=folder)

    def _delete_all(self, root: str) -> None:
        below = self._base(root)
        if not below[1]:
            raise InvalidInput(f"{root!r} is a whole storage root and is never deleted", field="location")
        with self._folder(*below) as (folder, name):
            if folder is not None:
                _remove(folder, name)

    def _base(self, root: str) -> tuple[str, str]:
        """The configured root that holds this one, and the way down from it."""
        path = root.removeprefix("file://").rstrip("/") + "/"
        for base in self._roots:
            if path.startswith(base):
                below = path[len(base) :].rstrip("/")
                return base, require_key(below, "location") if below else ""
        raise InvalidInput(f"{root!r} lies outside of the folders that this server may use", field="location")

    def _whole(self, root: str, path: str) -> str:
        """The object's path on the disk; a link may still lead astray there."""
        base, below = self._base(root)
        return f"{base}{below}{'/' if below else ''}{require_key(path)}"

    @contextmanager
    def _folder(self, root: str, path: str, *, make: bool = False) -> Iterator[tuple[int | None, str]]:
        """The folder that holds the object, opened without following a link, and the object's name in it."""
        base, below = (root, "") if root in self._roots else self._base(root)
        parts = [*(below.split("/") if below else ()), *require_key(path).split("/")]
        folder: int | None = None
        try:
            folder = _open_folder(base, None)
            if folder is None and make:
                raise Unavailable(f"the storage folder {base} is gone; is its disk mounted?")
            for depth, part in enumerate(parts[:-1], 1):
                if folder is None:
                    break
                inner = self._made(folder, part, base + "/".join(parts[:depth])) if make else _open_folder(part, folder)
                os.close(folder)
                folder = inner
            yield folder, parts[-1]
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidInput(f"a name in the path {path[:80]!r}… is too long", field="path") from error
            raise Unavailable(f"cannot use {path}: {error.strerror}") from error
        finally:
            if folder is not None:
                os.close(folder)

    def _made(self, folder: int, part: str, whole: str) -> int:
        """The folder, opened; a power cut will not take it away with what we put into it."""
        if whole in self._safe_folders and (inner := _open_folder(part, folder)) is not None:
            return inner
        # Whoever made it may not have synced it yet, so the first of us to meet it does.
        with suppress(FileExistsError):
            os.mkdir(part, 0o755, dir_fd=folder)
        os.fsync(folder)
        if len(self._safe_folders) >= _MOST_REMEMBERED:
            self._safe_folders.clear()
        self._safe_folders.add(whole)
        inner = _open_folder(part, folder)
        if inner is None:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return inner


def _open_folder(name: str, folder: int | None) -> int | None:
    return _open(name, _FOLDER, folder, name)


def _open(name: str, flags: int, folder: int | None, path: str) -> int | None:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in _MISSING and not (error.errno == errno.ENOTDIR and _is_link(name, folder)):
            return None
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidInput(f"the path {path!r} leads through a link", field="path") from error
        raise


def _open_file(name: str, folder: int, path: str) -> int | None:
    """A plain file, or None: opening a pipe would wait for somebody to write into it."""
    file = _open(name, os.O_RDONLY | os.O_NONBLOCK, folder, path)
    if file is not None and not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    return file


def _content(file: int, path: str, limit: int) -> bytes | None:
    """All bytes of an open file, which is closed afterwards; None if it is none."""
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return None
        # Asked for its size first: reading up to a limit would reserve memory for all of it.
        if found.st_size > limit:
            raise TooLarge(f"{path} is larger than {limit} bytes", field="path")
        data = os.read(file, found.st_size)
        while len(data) < found.st_size and (more := os.read(file, found.st_size - len(data))):
            data += more  # a call reads 2 GB at most
        return data
    finally:
        os.close(file)


def _found(name: str, folder: int) -> bool:
    """False: nothing was written. A file of this name survives a power cut, whoever wrote it."""
    with suppress(FileNotFoundError):  # gone since
        if stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode):
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(folder)
    return False


def _linked(old: str, name: str, folder: int) -> bool:
    """Whether a file bears a second name in a folder now."""
    try:
        os.link(old, require_key(name), src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return _is_same(old, name, folder)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise Unavailable(f"cannot link {old}: {error.strerror}") from error
    return True


def _is_same(one: str, other: str, folder: int) -> bool:
    """Whether two names in a folder stand for one file."""
    try:
        return os.path.samestat(os.lstat(one, dir_fd=folder), os.lstat(other, dir_fd=folder))
    except FileNotFoundError:
        return False


def _remove(folder: int, name: str) -> None:
    """Everything below a name. Somebody else may be at it too: what is gone by now is fine, yet the rest must go."""
    while True:
        try:
            if _is_link(name, folder):
                os.unlink(name, dir_fd=folder)
            else:
                shutil.rmtree(name, dir_fd=folder)
        except FileNotFoundError:
            if not _exists(name, folder):
                return
        except NotADirectoryError:
            return
        else:
            return


def _walk(folder: int, above: str, stem: str, after: str) -> Iterator[Listed]:
    """The files in an open folder and below it; links are neither listed nor followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = above + entry.name
            if not entry.name.startswith(stem):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_inner(folder, entry.name, path + "/", after)
            elif path > after and entry.is_file(follow_symlinks=False) and not _is_aside(entry.name):
                with suppress(FileNotFoundError):  # deleted since the folder was read
                    found = entry.stat(follow_symlinks=False)
                    yield Listed(path, found.st_size, found.st_mtime_ns // 1_000_000)


def _walk_inner(folder: int, name: str, above: str, after: str) -> Iterator[Listed]:
    inner = _open_folder(name, folder)
    if inner is not None:
        try:
            yield from _walk(inner, above, "", after)
        finally:
            os.close(inner)


def _is_aside(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _is_link(name: str, folder: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


def _exists(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
