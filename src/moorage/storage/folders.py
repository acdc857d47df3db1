"""What is done in an open folder of the local disk. No link is followed."""

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
_MISSING = {errno.ENOENT, errno.ENOTDIR}
_NO_LINKS = {errno.ENOENT, errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP}
"""There is nothing to link, or the disk cannot."""


def made_unsynced(folder: int, part: str, whole: str) -> int:
    """The folder, opened; a power cut may take it away."""
    inner = open_folder(part, folder)
    if inner is not None:
        return inner
    with suppress(FileExistsError):
        os.mkdir(part, 0o755, dir_fd=folder)
    return opened(part, folder)


def opened(part: str, folder: int) -> int:
    inner = open_folder(part, folder)
    if inner is None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return inner


@contextmanager
def written_aside(folder: int, data: bytes) -> Iterator[str]:
    """The name of a file with these bytes, which are safe; afterwards nothing bears that name."""
    aside = f".{uuid4().hex}.tmp"
    file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield aside
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside, dir_fd=folder)


def open_folder(name: str, folder: int | None) -> int | None:
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


def open_file(name: str, folder: int, path: str) -> int | None:
    """A plain file, or None: opening a pipe would wait for somebody to write into it."""
    file = _open(name, os.O_RDONLY | os.O_NONBLOCK, folder, path)
    if file is not None and not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        return None
    return file


def content(file: int, path: str, limit: int) -> bytes | None:
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


def content_at_once(file: int, limit: int) -> bytes | None:
    """The same if the disk need not be waited for; else None, whatever the reason."""
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


def found(name: str, folder: int) -> bool:
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


def linked(old: str, name: str, folder: int) -> bool:
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


def remove_all(folder: int, name: str) -> None:
    """Everything below a name. Somebody else may be at it too: what is gone by now is fine, yet the rest must go."""
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
    inner = open_folder(name, folder)
    if inner is not None:
        try:
            yield from walk(inner, above, "", after)
        finally:
            os.close(inner)


def _is_aside(name: str) -> bool:
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
