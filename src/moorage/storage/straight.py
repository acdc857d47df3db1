"""System calls of Linux that Python has no name for.

Opening a file by one call that follows no link exists since 5.6, and since 5.12 one that does not wait for the disk
either. Where it is missing or says no, whoever asks goes down folder by folder, which takes a dozen calls and can tell
what is in the way.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

_OPENAT2: Final = 437
"""The same number on every architecture."""
_WORKING_FOLDER: Final = -100
_NO_SYMLINKS: Final = 0x04
_IN_MEMORY: Final = 0x20


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


# Not blocking: opening a pipe would wait for somebody to write into it.
_TO_READ_AT_ONCE: Final = ctypes.byref(
    _OpenHow(os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC, 0, _NO_SYMLINKS | _IN_MEMORY)
)
_TO_ENTER: Final = ctypes.byref(_OpenHow(os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0, _NO_SYMLINKS))
_TO_MAKE: Final = ctypes.byref(_OpenHow(os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, _NO_SYMLINKS))
_HOW_BYTES: Final = ctypes.sizeof(_OpenHow)
_LIBC: Final = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def open_at_once(path: str) -> int | None:
    """A descriptor to read what lies at an absolute path, if no link leads there; else None, whatever the reason.

    Also None if the way there has to be read from the disk.
    """
    return _open(path, _TO_READ_AT_ONCE)


def enter_straight(path: str) -> int | None:
    """A descriptor of the folder at an absolute path, if no link leads there; else None, whatever the reason."""
    return _open(path, _TO_ENTER)


def make_straight(path: str) -> int | None:
    """A descriptor to write a new file at an absolute path, if no link leads there; else None, whatever the reason."""
    return _open(path, _TO_MAKE)


def _open(path: str, how: ctypes._CArgObject) -> int | None:
    if _LIBC is None:
        return None
    file = _LIBC.syscall(_OPENAT2, _WORKING_FOLDER, os.fsencode(path), how, _HOW_BYTES)
    return file if file >= 0 else None


CAN_SYNC_ALL: Final = _LIBC is not None


def sync_all(file: int) -> None:
    """Wait until everything that was written to the filesystem of an open file is safe.

    OSError if some of it could not be written since the file was opened (since Linux 5.8; before, nobody is told).
    """
    assert _LIBC is not None  # noqa: S101 - nobody asks where CAN_SYNC_ALL is false
    if _LIBC.syncfs(file) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
