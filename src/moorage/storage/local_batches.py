"""Writes many files to the local disk, and waits for the disk twice for all of them.

The bytes of all files are durable before the first name appears, and all names are durable on return. So a power cut
leaves no name without its bytes, as if the files had been synced one by one.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress

from moorage.core.errors import TooLarge, Unavailable
from moorage.storage.folders import exists, open_file, read_file, temporary_name, write_file
from moorage.storage.linux_calls import sync_all
from moorage.storage.port import NewObject, Placed

_OpenFolder = Callable[[str, str], AbstractContextManager[tuple[int | None, str]]]
"""Opens the folder of an object, whose name is durable; yields it and the object's name in it."""


class BatchWriter:
    """Not for several threads at a time."""

    def __init__(self, open_folder: _OpenFolder) -> None:
        self._open_folder = open_folder
        self._watched: dict[int, int] = {}
        """An open folder by device, to sync its filesystem. It is used here only: it reports a lost write once."""
        weakref.finalize(self, _close_all, self._watched)

    def put_all_new(self, objects: Sequence[NewObject]) -> list[Placed]:
        """See the port. The temporary files of a batch that fails are removed."""
        devices: set[int] = set()
        temporary: dict[int, str] = {}
        try:
            for number, each in enumerate(objects):
                with self._open_folder(each.root, each.path) as (folder, name):
                    assert folder is not None  # noqa: S101 - missing folders are made
                    devices.add(self._watch(folder))
                    if not exists(name, folder):
                        temporary[number] = temporary_name()
                        write_file(temporary[number], folder, each.data)
            self._sync(devices if temporary else set())
            placed = self._link_all(objects, temporary)
        finally:
            for number, old in temporary.items():
                self._remove(objects[number], old)
        self._sync(devices)
        return placed

    def _link_all(self, objects: Sequence[NewObject], temporary: dict[int, str]) -> list[Placed]:
        stopped: set[str] = set()
        placed = []
        for number, each in enumerate(objects):
            found = Placed.SKIPPED if each.root in stopped else self._link(each, temporary.get(number))
            if found is Placed.OTHER:
                stopped.add(each.root)
            placed.append(found)
        return placed

    def _link(self, each: NewObject, temporary: str | None) -> Placed:
        with self._open_folder(each.root, each.path) as (folder, name):
            assert folder is not None  # noqa: S101 - as above
            if temporary is not None:
                with suppress(FileExistsError):
                    os.link(temporary, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                    return Placed.NEW
            file = open_file(name, folder, each.path)
            with suppress(TooLarge):
                if file is not None and read_file(file, each.path, len(each.data)) == each.data:
                    return Placed.SAME
            return Placed.OTHER

    def _remove(self, each: NewObject, temporary: str) -> None:
        with self._open_folder(each.root, each.path) as (folder, _), suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)

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


def _close_all(watched: dict[int, int]) -> None:
    for file in watched.values():
        os.close(file)
