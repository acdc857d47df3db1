"""Operations on open folders of the local disk. They do not follow links."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import uuid4

from moorage.core.errors import InvalidInput, TooLarge, Unavailable
from moorage.storage.confine import require_key
from moorage.storage.port import Listed

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MISSING_ERRNOS = {errno.ENOENT, errno.ENOTDIR}
CANNOT_LINK = {errno.ENOENT, errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP}
"""The file to link does not exist, or the filesystem does not support links."""


def make_unsynced_folder(folder: int, part: str, whole: str) -> int:
    """Open the folder, and make it if it is missing. It is not durable."""
    inner = open_folder(part, folder)
    if inner is not None:
        return inner
    with suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=folder)
    return require_folder(part, folder)


def require_folder(part: str, folder: int) -> int:
    inner = open_folder(part, folder)
    if inner is None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return inner


@contextmanager
def temporary_file(folder: int, data: bytes) -> Iterator[str]:
    """Write a file with these bytes, sync it, and yield its name. The name is removed afterwards."""
    temporary = temporary_name()
    try:
        write_file(temporary, folder, data, sync=True)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)


def temporary_name() -> str:
    """A name that listings leave out."""
    return f".{uuid4().hex}.tmp"


def write_file(name: str, folder: int, data: bytes, *, sync: bool = False) -> None:
    """Write a new file, and wait until its bytes are durable if `sync` is set."""
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644, dir_fd=folder)
    try:
        written = os.write(file, data)
        while written < len(data):
            written += os.write(file, data[written:])
        if sync:
            os.fsync(file)
    finally:
        os.close(file)


def open_folder(name: str, folder: int | None) -> int | None:
    return _open(name, _FOLDER, folder, name)


def _open(name: str, flags: int, folder: int | None, path: str) -> int | None:
    try:
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in _MISSING_ERRNOS and not (error.errno == errno.ENOTDIR and _is_link(name, folder)):
            return None
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidInput(
                f"the path {path!r} goes through a link; links are not followed", field="path"
            ) from error
        raise


def open_file(name: str, folder: int, path: str) -> int | None:
    """Open a regular file. Returns None for anything else: opening a pipe would wait until a process writes into it."""
    file = _open(name, os.O_RDONLY | os.O_NONBLOCK, folder, path)
    if file is not None and not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    return file


def read_file(file: int, path: str, limit: int) -> bytes | None:
    """Return all bytes of an open file and close it. Returns None if it is not a regular file."""
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return None
        # The size is checked first, because a read with a limit allocates memory for the whole limit.
        if found.st_size > limit:
            raise TooLarge(f"{path} is larger than {limit} bytes", field="path")
        data = os.read(file, found.st_size)
        while len(data) < found.st_size and (more := os.read(file, found.st_size - len(data))):
            data += more  # one call reads at most 2 GB
        return data
    finally:
        os.close(file)


def read_file_if_cached(file: int, limit: int) -> bytes | None:
    """Like read_file, but returns None if it would have to wait for the disk, and on any failure."""
    try:
        found = os.fstat(file)
        if found.st_size > limit or not stat.S_ISREG(found.st_mode):
            return None
        data = bytearray(found.st_size)
        return bytes(data) if os.preadv(file, (data,), 0, os.RWF_NOWAIT) == len(data) else None
    except OSError:
        return None
    finally:
        os.close(file)


def sync_existing(name: str, folder: int) -> bool:
    """Make an existing file durable, because another writer may not have. Always returns False: nothing was written."""
    with suppress(FileNotFoundError):  # deleted in between
        if stat.S_ISREG(os.lstat(name, dir_fd=folder).st_mode):
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                os.fsync(file)
            finally:
                os.close(file)
            os.fsync(folder)
    return False


def link_file(old: str, name: str, folder: int) -> bool:
    """Give a file a second name in its folder. Returns whether it now has that name."""
    try:
        os.link(old, require_key(name), src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return _is_same_file(old, name, folder)
    except OSError as error:
        if error.errno in CANNOT_LINK:
            return False
        raise Unavailable(f"cannot link {old}: {error.strerror}") from error
    return True


def _is_same_file(one: str, other: str, folder: int) -> bool:
    """Whether two names in a folder are the same file."""
    try:
        return os.path.samestat(os.lstat(one, dir_fd=folder), os.lstat(other, dir_fd=folder))
    except FileNotFoundError:
        return False


def remove_all(folder: int, name: str) -> None:
    """Delete a name and everything below it.

    Another process may be deleting the same files. Files that are already missing are fine, but the rest must be
    deleted, so this starts over until nothing is left.
    """
    while True:
        try:
            if _is_link(name, folder):
                os.unlink(name, dir_fd=folder)
            else:
                shutil.rmtree(name, dir_fd=folder)
        except FileNotFoundError:
            if not exists(name, folder):
                return
        except NotADirectoryError:
            return
        else:
            return


def walk(folder: int, above: str, stem: str, after: str) -> Iterator[Listed]:
    """Yield the files in an open folder and below it. Links are neither listed nor followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            path = above + entry.name
            if not entry.name.startswith(stem):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from _walk_inner(folder, entry.name, path + "/", after)
            elif path > after and entry.is_file(follow_symlinks=False) and not _is_temporary(entry.name):
                with suppress(FileNotFoundError):  # deleted since the folder was read
                    found = entry.stat(follow_symlinks=False)
                    yield Listed(path, found.st_size, found.st_mtime_ns // 1_000_000)


def _walk_inner(folder: int, name: str, above: str, after: str) -> Iterator[Listed]:
    inner = open_folder(name, folder)
    if inner is not None:
        try:
            yield from walk(inner, above, "", after)
        finally:
            os.close(inner)


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _is_link(name: str, folder: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


def exists(name: str, folder: int) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
