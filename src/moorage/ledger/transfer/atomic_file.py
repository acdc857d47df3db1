"""Atomic file creation: a file appears under its final name complete and durable, or not at all."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from moorage.core.errors import InvalidInput
from moorage.ledger.faults import reach

_SUFFIX = ".moorage-partial"


@contextlib.contextmanager
def create_atomically(final: Path) -> Iterator[Path]:
    """Yield a temporary path to write to. At the end, the file is renamed to the final name.

    The writer holds a lock on the file. A temporary file without a lock was left by a killed process and is deleted.
    """
    _require_free(final)
    _remove_left_overs(final.parent)
    handle, partial = _locked_file(final)
    try:
        yield partial
        os.fsync(handle)
        _require_free(final)
        partial.rename(final)
        reach("transfer.renamed")
        sync_folder(final.parent)
    except BaseException:
        _remove(partial)
        raise
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Make new names in the folder durable: without this, a power failure can undo a rename."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _require_free(final: Path) -> None:
    if final.exists():
        raise InvalidInput(f"{final} already exists: choose another name, or move it away first")


def _locked_file(final: Path) -> tuple[int, Path]:
    while True:
        try:
            handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=_SUFFIX, dir=final.parent)
        except OSError as error:
            raise InvalidInput(f"cannot write to {final.parent}: {error.strerror}; choose another folder") from error
        fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):
            return handle, Path(name)
        os.close(handle)  # another process deleted it as a left-over before the lock


def _remove_left_overs(folder: Path) -> None:
    """Delete left-overs of all names, not just this one: backups are often named by date."""
    for left in folder.glob(f".*{_SUFFIX}"):
        with contextlib.suppress(OSError), left.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(left)


def _remove(partial: Path) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        partial.with_name(partial.name + suffix).unlink(missing_ok=True)
