"""Linux system calls that Python does not wrap: openat2 and syncfs.

openat2 opens a path in one call without following links (since Linux 5.6) and without waiting for the disk (since
5.12). Where the call is missing or fails, the caller walks down folder by folder instead. That takes a dozen calls,
and finds the reason.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_OPENAT2: Final = 437
"""The same number on every architecture."""
_AT_FDCWD: Final = -100
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_CACHED: Final = 0x20


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


# O_NONBLOCK: opening a pipe would otherwise wait until a process writes into it.
_READ_IF_CACHED: Final = ctypes.byref(
    _OpenHow(os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_CACHED)
)
_READ_FOLDER: Final = ctypes.byref(_OpenHow(os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS))
_CREATE: Final = ctypes.byref(
    _OpenHow(os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, _RESOLVE_NO_SYMLINKS)
)
_HOW_BYTES: Final = ctypes.sizeof(_OpenHow)
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def open_if_cached(path: str) -> int | None:
    """Open an absolute path for reading without following links. Returns the descriptor, or None on any failure.

    Also returns None if looking up the path would have to wait for the disk.
    """
    return _open(path, _READ_IF_CACHED)


def open_folder_without_links(path: str) -> int | None:
    """Open the folder at an absolute path without following links. Returns the descriptor, or None on any failure."""
    return _open(path, _READ_FOLDER)


def create_file_without_links(path: str) -> int | None:
    """Create a file at an absolute path without following links. Returns the descriptor, or None on any failure."""
    return _open(path, _CREATE)


def _open(path: str, how: ctypes._CArgObject) -> int | None:
    if _LIBC is None:
        return None
    file = _LIBC.syscall(_OPENAT2, _AT_FDCWD, os.fsencode(path), how, _HOW_BYTES)
    return file if file >= 0 else None


CAN_SYNC_ALL: Final = _LIBC is not None


def sync_all(file: int) -> None:
    """Wait until everything that was written to the filesystem of an open file is durable.

    Raises OSError if a write to it has failed since the file was opened. Before Linux 5.8 such failures are not
    reported.
    """
    assert _LIBC is not None  # noqa: S101 - callers check CAN_SYNC_ALL first
    if _LIBC.syncfs(file) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
