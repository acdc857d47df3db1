"""The local disk keeps the storage contract, and no link leads out of a root."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.core.errors import InvalidInput, Unavailable
from moorage.core.locations import normalize_location
from moorage.storage import local
from moorage.storage.local import LocalStorage
from moorage.testing.storage_kit import MUCH, StorageKit


def names_below(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


class TestBehindALink(StorageKit):
    """A root whose path contains a link is the folder that the link points to."""

    @pytest.fixture
    def link(self, tmp_path: Path) -> Path:
        (tmp_path / "disk" / "managed").mkdir(parents=True)
        (tmp_path / "data").symlink_to(tmp_path / "disk")
        return tmp_path / "data" / "managed"

    @pytest.fixture
    def storage(self, link: Path) -> LocalStorage:
        return LocalStorage(link)

    @pytest.fixture
    def base(self, link: Path) -> str:
        return normalize_location(str(link))


class TestLocal(StorageKit):
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        folder = tmp_path / "managed"
        folder.mkdir()
        return folder

    @pytest.fixture
    def storage(self, folder: Path) -> LocalStorage:
        return LocalStorage(folder)

    @pytest.fixture
    def base(self, folder: Path) -> str:
        return normalize_location(str(folder))

    @pytest.fixture
    def outside(self, tmp_path: Path) -> Path:
        """A file and a folder beside the storage, which no path may reach."""
        outside = tmp_path / "outside"
        (outside / "deep").mkdir(parents=True)
        (outside / "secret").write_bytes(b"secret")
        for name in ("secret", "elsewhere"):
            (outside / "deep" / name).write_bytes(b"secret")
        return outside

    @pytest.fixture
    def table(self, folder: Path) -> Path:
        """The folder of the root `t1/`, created by another program."""
        table = folder / "t1"
        table.mkdir()
        return table

    async def refuses(self, storage: LocalStorage, root: str, path: str) -> None:
        for operation in (storage.read(root, path, limit=MUCH), storage.size(root, path)):
            with pytest.raises(InvalidInput, match="link"):
                await operation

    async def test_a_link_to_a_file_is_not_followed(
        self, storage: LocalStorage, base: str, table: Path, outside: Path
    ) -> None:
        (table / "link").symlink_to(outside / "secret")
        (table / "dangling").symlink_to(outside / "nothing")
        await self.refuses(storage, f"{base}t1/", "link")
        await self.refuses(storage, f"{base}t1/", "dangling")
        assert await storage.put_new(f"{base}t1/", "dangling", b"x") is False
        assert not (outside / "nothing").exists()
        await storage.delete(f"{base}t1/", "link")
        assert (outside / "secret").read_bytes() == b"secret"

    async def test_a_link_to_a_folder_is_not_followed(
        self, storage: LocalStorage, base: str, table: Path, outside: Path
    ) -> None:
        (table / "link").symlink_to(outside)
        root = f"{base}t1/"
        await self.refuses(storage, root, "link/secret")
        await self.refuses(storage, root, "link/deep/secret")
        with pytest.raises(InvalidInput, match="link"):
            await storage.put_new(root, "link/new", b"x")
        for put in (storage.put_unique, storage.overwrite):
            with pytest.raises(InvalidInput, match="link"):
                await put(root, "link/new", b"x")
        with pytest.raises(InvalidInput, match="link"):
            await storage.delete(root, "link/secret")
        with pytest.raises(InvalidInput, match="link"):
            await storage.delete_all(f"{root}link/deep/")
        assert names_below(outside) == ["deep", "elsewhere", "secret", "secret"]

    async def test_deleting_a_root_that_is_a_link_keeps_its_target(
        self, storage: LocalStorage, base: str, folder: Path, outside: Path
    ) -> None:
        (folder / "t1").symlink_to(outside)
        await self.refuses(storage, f"{base}t1/", "secret")
        await storage.delete_all(f"{base}t1/")
        assert names_below(folder) == []
        assert (outside / "secret").exists()

    async def test_deleting_a_root_keeps_the_targets_of_links_inside_it(
        self, storage: LocalStorage, base: str, table: Path, outside: Path
    ) -> None:
        (table / "deep").mkdir()
        (table / "deep" / "file").symlink_to(outside / "secret")
        (table / "deep" / "folder").symlink_to(outside)
        await storage.delete_all(f"{base}t1/")
        assert names_below(table.parent) == []
        assert (outside / "deep" / "secret").exists()

    async def test_a_folder_that_is_swapped_with_a_link_does_not_lead_outside(
        self, storage: LocalStorage, base: str, table: Path, outside: Path
    ) -> None:
        """A thread swaps a folder with a link as fast as it can. No read leaves the root."""
        root = f"{base}t1/"
        await storage.put_new(root, "deep/secret", b"mine")
        stop = threading.Event()

        def swap() -> None:
            (table / "link").symlink_to(outside / "deep")
            while not stop.is_set():
                for backup_name, restored_name in (("real", "link"), ("link", "real")):
                    os.rename(table / "deep", table / backup_name)
                    os.rename(table / restored_name, table / "deep")

        swapping = threading.Thread(target=swap)
        swapping.start()
        seen: set[bytes | str | None] = set()
        try:
            for _ in range(1000):
                try:
                    seen.add(await storage.read(root, "deep/secret", limit=MUCH))
                    await storage.delete(root, "deep/elsewhere")
                except InvalidInput:
                    seen.add("refused")
        finally:
            stop.set()
            await asyncio.to_thread(swapping.join)
        assert seen <= {b"mine", "refused", None}
        assert seen >= {b"mine", "refused"}, "the folder was never seen as both"
        assert names_below(outside) == ["deep", "elsewhere", "secret", "secret"]

    async def test_a_storage_below_a_linked_folder_works(self, tmp_path: Path) -> None:
        """An operator may place the data folder on another disk with a link. Only links below it are refused."""
        (tmp_path / "disk").mkdir()
        (tmp_path / "data").symlink_to(tmp_path / "disk")
        storage = LocalStorage(tmp_path / "data")
        root = normalize_location(str((tmp_path / "data").resolve()))
        assert await storage.put_new(f"{root}t1/", "a", b"x")
        assert (tmp_path / "disk" / "t1" / "a").read_bytes() == b"x"

    async def test_a_pipe_is_not_an_object(self, storage: LocalStorage, base: str, table: Path) -> None:
        os.mkfifo(table / "pipe")
        async with asyncio.timeout(5):
            assert await storage.read(f"{base}t1/", "pipe", limit=MUCH) is None
            assert await storage.size(f"{base}t1/", "pipe") is None
            assert await storage.list(f"{base}t1/", "") == ()

    async def test_a_small_file_is_read_from_disk_without_blocking_the_event_loop(
        self, storage: LocalStorage, base: str, table: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A file that is not in memory is read on a thread: a slow disk must not delay other requests."""
        with (table / "cold").open("wb") as file:
            file.write(b"x" * 3000)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        read, readers = os.read, list[threading.Thread]()

        def watched_read(file: int, length: int) -> bytes:
            readers.append(threading.current_thread())
            return read(file, length)

        monkeypatch.setattr(os, "read", watched_read)
        assert await storage.read(f"{base}t1/", "cold", limit=3000) == b"x" * 3000
        assert readers
        assert threading.main_thread() not in readers

    async def test_a_name_that_is_too_long_for_the_disk_is_refused(self, storage: LocalStorage, base: str) -> None:
        await storage.put_new(f"{base}t1/", "a", b"x")
        for operation in (
            storage.read(f"{base}t1/", "x" * 256, limit=MUCH),
            storage.put_new(f"{base}t1/", "x" * 256, b"x"),
            storage.put_new(f"{base}t1/", f"{'x' * 256}/a", b"x"),
            storage.delete(f"{base}t1/", "x" * 256),
        ):
            with pytest.raises(InvalidInput, match="too long") as refusal:
                await operation
            assert refusal.value.field == "path"

    async def test_an_error_of_the_disk_is_reported_with_its_reason(self, storage: LocalStorage, base: str) -> None:
        root = f"{base}t1/"
        await storage.put_new(root, "file", b"x")
        with pytest.raises(Unavailable, match=r"file/below: Not a directory"):
            await storage.put_new(root, "file/below", b"x")
        assert await storage.read(root, "file", limit=MUCH) == b"x"

    async def test_a_missing_storage_folder_is_not_created_again(
        self, storage: LocalStorage, base: str, folder: Path
    ) -> None:
        """An unmounted disk leaves an empty mount point or none. Files written there would be on the wrong disk."""
        os.rmdir(folder)
        with pytest.raises(Unavailable, match="check that its disk is mounted"):
            await storage.put_new(f"{base}t1/", "a", b"x")
        assert names_below(folder.parent) == []

    async def test_a_failed_write_leaves_nothing_behind(
        self, storage: LocalStorage, base: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(file: int, data: bytes = b"") -> int:
            raise OSError(28, "No space left on device")

        await storage.put_new(f"{base}t1/", "before", b"x")
        monkeypatch.setattr(os, "fsync", broken)
        monkeypatch.setattr(os, "write", broken)
        for put in (storage.put_new, storage.overwrite, storage.put_unique):
            with pytest.raises(Unavailable, match="No space left"):
                await put(f"{base}t1/", "a", b"x")
        monkeypatch.undo()
        assert names_below(folder) == ["before", "t1"]
        assert await storage.put_new(f"{base}t1/", "a", b"x")

    async def test_the_bytes_are_durable_before_the_name_appears_and_the_name_before_the_call_returns(
        self, storage: LocalStorage, base: str, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The order of the system calls decides what a power cut between two of them can leave."""
        steps: list[str] = []
        sync, link, mkdir = os.fsync, os.link, os.mkdir

        def watched_sync(file: int) -> None:
            kept = os.readlink(f"/proc/self/fd/{file}")
            steps.append(f"sync {'file' if kept.endswith('.tmp') else Path(kept).name}")
            sync(file)

        def watched_link(*args: object, **given: object) -> None:
            steps.append("link")
            link(*args, **given)  # type: ignore[arg-type]

        def watched_mkdir(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
            steps.append(f"mkdir {name}")
            mkdir(name, mode, dir_fd=dir_fd)

        monkeypatch.setattr(os, "fsync", watched_sync)
        monkeypatch.setattr(os, "link", watched_link)
        monkeypatch.setattr(os, "mkdir", watched_mkdir)
        await storage.put_new(f"{base}t1/", "log/a", b"x")
        assert steps == ["mkdir t1", "sync managed", "mkdir log", "sync t1", "sync file", "link", "sync log"]
        steps.clear()
        await storage.put_new(f"{base}t1/", "log/b", b"x")
        assert steps == ["sync file", "link", "sync log"]
        steps.clear()
        await storage.overwrite(f"{base}t1/", "log/b", b"x")
        assert steps == ["sync file", "sync log"]
        steps.clear()
        (folder / "t1" / "log" / "theirs").write_bytes(b"x")
        await storage.make_durable(f"{base}t1/", "log/theirs")
        assert steps == ["sync theirs", "sync log"]
        steps.clear()
        # Another server syncs the folders again: the server that created them may not have synced them yet.
        await LocalStorage(folder).put_new(f"{base}t1/", "log/c", b"x")
        assert steps == ["mkdir t1", "sync managed", "mkdir log", "sync t1", "sync file", "link", "sync log"]

    async def test_a_unique_file_is_not_synced_and_one_sync_covers_the_whole_disk(
        self, storage: LocalStorage, base: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[str] = []

        def watched(what: str) -> Callable[[int], None]:
            return lambda file: synced.append(what)

        monkeypatch.setattr(os, "fsync", watched("file"))
        monkeypatch.setattr(local, "sync_all", watched("disk"))
        await storage.sync()
        assert synced == []
        for n in range(3):
            assert await storage.put_unique(f"{base}t{n}/", "deep/u", b"x") is False
        assert synced == []
        await storage.sync()
        await storage.sync()
        assert synced == ["disk"]

    async def test_an_unused_storage_leaves_no_file_open(self, folder: Path, base: str) -> None:
        def opened() -> int:
            return sum(Path(link).resolve().is_relative_to(folder) for link in Path("/proc/self/fd").iterdir())

        storage = LocalStorage(folder)
        await storage.put_unique(f"{base}t1/", "u", b"x")
        assert opened() == 1
        del storage
        gc.collect()
        assert opened() == 0

    async def test_a_failed_sync_of_the_disk_is_reported(
        self, storage: LocalStorage, base: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(file: int) -> None:
            raise OSError(5, "Input/output error")

        await storage.put_unique(f"{base}t1/", "u", b"x")
        monkeypatch.setattr(local, "sync_all", broken)
        with pytest.raises(Unavailable, match="may not be durable: Input/output error"):
            await storage.sync()

    async def test_a_disk_without_a_whole_sync_is_synced_for_each_unique_file(
        self, storage: LocalStorage, base: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(local, "CAN_SYNC_ALL", False)
        assert await storage.put_unique(f"{base}t1/", "u", b"x") is True
        with pytest.raises(Unavailable, match="File exists"):
            await storage.put_unique(f"{base}t1/", "u", b"y")
        await storage.sync()
