"""Writes many files to the local disk, and waits for the disk twice for all of them.

The bytes of all files are durable before the first name appears, and all names are durable on return. So a power cut
leaves no name without its bytes, as if the files had been synced one by one. Each file takes few system calls: after
each of them, the thread may wait for the interpreter's lock.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress

from moorage.core.errors import TooLarge, Unavailable
from moorage.storage.folders import (
    CANNOT_LINK,
    exists,
    open_file,
    read_file,
    temporary_file,
    temporary_name,
    write_file,
)
from moorage.storage.linux_calls import sync_all
from moorage.storage.port import NewObject, Placed

_OpenFolder = Callable[[str, str], AbstractContextManager[tuple[int | None, str]]]
"""Opens the folder of an object, whose name is durable; yields it and the object's name in it."""

_MOST_OPEN_FOLDERS = 16


class BatchWriter:
    """Not for several threads at a time."""

    def __init__(self, open_folder: _OpenFolder) -> None:
        self._open_folder = open_folder
        self._watched: dict[int, int] = {}
        """An open folder by device, to sync its filesystem. It is used here only: it reports a lost write once."""
        weakref.finalize(self, _close_all, self._watched)

    def put_all_new(self, objects: Sequence[NewObject]) -> list[Placed]:
        """See the port. The temporary files of a batch that fails are removed."""
        try:
            with _OpenFolders(self._open_folder) as folders:
                placed, devices = self._put_all_new(folders, objects)
        except OSError as error:
            raise Unavailable(f"cannot write {len(objects)} new files: {error.strerror}") from error
        self._sync(devices)
        return placed

    def _put_all_new(self, folders: _OpenFolders, objects: Sequence[NewObject]) -> tuple[list[Placed], set[int]]:
        devices = {self._watch(folders.of(each.root, each.path)[0]) for each in {o.root: o for o in objects}.values()}
        origins: dict[int, str] = {}
        temporary: list[tuple[str, str]] = []
        try:
            for number, each in enumerate(objects):
                folder, name = folders.of(each.root, each.path)
                if each.source is not None and _has_bytes(folders, each.root, each.source, each.data):
                    origins[number] = each.source
                elif not exists(name, folder):
                    origins[number] = each.path.removesuffix(name) + temporary_name()
                    temporary.append((each.root, origins[number]))
                    write_file(origins[number].rpartition("/")[2], folder, each.data)
            self._sync(devices if origins else set())
            return _link_all(folders, objects, origins), devices
        finally:
            for root, path in temporary:
                folder, name = folders.of(root, path)
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)

    def _watch(self, folder: int) -> int:
        device = os.fstat(folder).st_dev
        if device not in self._watched:
            # Not a duplicate: it would share the reports of lost writes with the original.
            self._watched[device] = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        return device

    def _sync(self, devices: set[int]) -> None:
        for device in devices:
            try:
                sync_all(self._watched[device])
            except OSError as error:
                raise Unavailable(f"files written recently may not be durable: {error.strerror}") from error


class _OpenFolders:
    """The folders that were used last. The objects of a table are next to each other, and are in few folders."""

    def __init__(self, open_folder: _OpenFolder) -> None:
        self._open_folder = open_folder
        self._open: dict[tuple[str, str], tuple[int, ExitStack]] = {}

    def __enter__(self) -> _OpenFolders:
        return self

    def __exit__(self, *error: object) -> None:
        for _, opened in self._open.values():
            opened.close()

    def of(self, root: str, path: str) -> tuple[int, str]:
        """The folder of an object, and the object's name in it. The folder stays open for some more calls."""
        above, _, name = path.rpartition("/")
        found = self._open.pop((root, above), None) or self._opened(root, path)
        self._open[root, above] = found  # as the newest
        return found[0], name

    def _opened(self, root: str, path: str) -> tuple[int, ExitStack]:
        if len(self._open) >= _MOST_OPEN_FOLDERS:
            self._open.pop(next(iter(self._open)))[1].close()
        opened = ExitStack()
        folder, _ = opened.enter_context(self._open_folder(root, path))
        assert folder is not None  # noqa: S101 - missing folders are made
        return folder, opened


def _has_bytes(folders: _OpenFolders, root: str, path: str, data: bytes) -> bool:
    folder, name = folders.of(root, path)
    file = open_file(name, folder, path)
    with suppress(TooLarge):
        return file is not None and read_file(file, path, len(data)) == data
    return False


def _link_all(folders: _OpenFolders, objects: Sequence[NewObject], origins: dict[int, str]) -> list[Placed]:
    stopped: set[str] = set()
    placed = []
    for number, each in enumerate(objects):
        found = Placed.SKIPPED if each.root in stopped else _link(folders, each, origins.get(number))
        if found is Placed.OTHER:
            stopped.add(each.root)
        placed.append(found)
    return placed


def _link(folders: _OpenFolders, each: NewObject, origin: str | None) -> Placed:
    folder, name = folders.of(each.root, each.path)
    with suppress(FileExistsError):
        if origin is not None:
            old_folder, old = folders.of(each.root, origin)
            try:
                os.link(old, name, src_dir_fd=old_folder, dst_dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                if error.errno not in CANNOT_LINK:
                    raise
                # For example a file of another user, which Linux lets only its owner link.
                with temporary_file(folder, each.data) as own:
                    os.link(own, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
            return Placed.NEW
    return Placed.SAME if _has_bytes(folders, each.root, each.path, each.data) else Placed.OTHER


def _close_all(watched: dict[int, int]) -> None:
    for file in watched.values():
        os.close(file)
