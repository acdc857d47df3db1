"""The contract of the storage port as tests. Every store runs all of them.

    class TestLocal(StorageKit):
        @pytest.fixture
        def storage(self, tmp_path): return LocalStorage(tmp_path)
        @pytest.fixture
        def base(self, tmp_path): return place(str(tmp_path))

`base` is a location that the storage may use. Each test works in locations below it.
"""

from __future__ import annotations

import asyncio

import pytest

from moorage.core.errors import InvalidInput, MoorageError, TooLarge
from moorage.storage.port import NewObject, Placed, Storage

MUCH = 1 << 40
INVALID_PATHS = [
    "..",
    ".",
    "",
    "/",
    "../t2/a",
    "a/../b",
    "a/..",
    "./a",
    "a/./b",
    "a//b",
    "/a",
    "a/",
    "/etc/passwd",
    "a\\b",
    "..\\a",
    "a\x00b",
    "a\nb",
    "a\x7fb",
]
UNUSUAL_PATHS = ["a b", "a%2Fb", "%2e%2e", "...", "..a", "a..", "ü/日本/🚢", "a:b", "x" * 255, "~", "$HOME", "*", "a?b"]


class StorageKit:
    @pytest.fixture
    def root(self, base: str) -> str:
        return f"{base}t1/"

    # --- one object ----------------------------------------------------------------------------

    async def test_an_object_is_read_back_whole(self, storage: Storage, root: str) -> None:
        for path, data in (("a", b""), ("b/c/d", b"bytes"), ("large", bytes(range(256)) * 20_000)):
            assert await storage.put_new(root, path, data) is True
            assert await storage.read(root, path, limit=MUCH) == data
            assert await storage.size(root, path) == len(data)

    async def test_a_part_of_an_object_is_read_and_ends_with_the_object(self, storage: Storage, root: str) -> None:
        await storage.put_new(root, "a/b", b"0123456789")
        for start, end, expected in ((0, 10, b"0123456789"), (3, 5, b"34"), (8, 99, b"89"), (10, 20, b""), (5, 5, b"")):
            assert await storage.read_range(root, "a/b", start=start, end=end) == expected
        assert await storage.read_range(root, "a/c", start=0, end=1) is None

    async def test_a_link_is_made_once_and_replaces_no_object(self, storage: Storage, root: str) -> None:
        await storage.put_new(root, "log/staged", b"mine")
        await storage.put_new(root, "log/other", b"theirs")
        for _ in range(2):
            assert await storage.link(root, "log/staged", "final") is True
        assert await storage.read(root, "log/final", limit=MUCH) == b"mine"
        assert await storage.link(root, "log/other", "staged") is False
        assert await storage.read(root, "log/staged", limit=MUCH) == b"mine"
        assert await storage.link(root, "log/missing", "found") is False
        assert await storage.link(root, "nowhere/missing", "found") is False
        assert await storage.put_new(root, "log/final", b"later") is False

    async def test_many_objects_are_put_in_order_up_to_the_first_that_differs(
        self, storage: Storage, root: str
    ) -> None:
        await storage.put_new(root, "b/log/1", b"one")
        await storage.put_new(root, "b/log/2", b"other")
        names = ["a/log/1", "b/log/0", "b/log/1", "b/log/2", "b/log/3", "a/log/2"]
        contents = [b"", b"zero", b"one", b"two", b"three", b"two"]
        objects = [NewObject(f"{root}{n[:2]}", n[2:], data) for n, data in zip(names, contents, strict=True)]
        placed = [Placed.NEW, Placed.NEW, Placed.SAME, Placed.OTHER, Placed.SKIPPED, Placed.NEW]
        assert list(await storage.put_all_new(objects)) == placed
        assert await storage.put_all_new([]) == []
        assert {each.path: each.size for each in await storage.list(root, "")} == {
            "a/log/1": 0,
            "a/log/2": 3,
            "b/log/0": 4,
            "b/log/1": 3,
            "b/log/2": 5,
        }

    async def test_an_object_with_a_source_has_the_stated_bytes_whatever_the_source_is(
        self, storage: Storage, root: str
    ) -> None:
        await storage.put_new(root, "log/staged/1", b"one")
        await storage.put_new(root, "log/staged/2", b"not two")
        await storage.put_new(root, "log/4", b"other")
        contents = {1: b"one", 2: b"two", 3: b"three", 4: b"four"}
        objects = [NewObject(root, f"log/{n}", data, f"log/staged/{n}") for n, data in contents.items()]
        assert list(await storage.put_all_new(objects)) == [Placed.NEW, Placed.NEW, Placed.NEW, Placed.OTHER]
        for n, expected in {**contents, 4: b"other"}.items():
            assert await storage.read(root, f"log/{n}", limit=MUCH) == expected
        await storage.delete(root, "log/staged/1")
        assert await storage.read(root, "log/1", limit=MUCH) == b"one"

    async def test_many_new_objects_replace_none_when_put_by_several_servers(self, storage: Storage, root: str) -> None:
        objects = [NewObject(root, f"log/{n}", b"%d" % n) for n in range(20)]
        rounds = await asyncio.gather(*(storage.put_all_new(objects) for _ in range(4)))
        assert all(list(each).count(Placed.NEW) == 1 for each in zip(*rounds, strict=True))
        assert {found for each in rounds for found in each} == {Placed.NEW, Placed.SAME}

    async def test_a_linked_object_keeps_its_other_name(self, storage: Storage, root: str) -> None:
        await storage.put_new(root, "log/staged", b"mine")
        assert await storage.link(root, "log/staged", "final") is True
        await storage.sync()
        for _ in range(2):
            await storage.unlink(root, "log/staged")
        assert await storage.read(root, "log/staged", limit=MUCH) is None
        assert await storage.read(root, "log/final", limit=MUCH) == b"mine"

    async def test_a_missing_object_is_none(self, storage: Storage, root: str) -> None:
        await storage.put_new(root, "a/b", b"x")
        for path in ("c", "a/c", "a/b/c", "c/d/e", "a"):
            assert await storage.read(root, path, limit=MUCH) is None, path
            assert await storage.size(root, path) is None, path

    async def test_an_object_is_put_once_and_never_replaced(self, storage: Storage, root: str) -> None:
        assert await storage.put_new(root, "a/b", b"first")
        assert await storage.put_new(root, "a/b", b"second") is False
        assert await storage.put_new(root, "a/b", b"first") is False
        assert await storage.read(root, "a/b", limit=MUCH) == b"first"

    async def test_one_of_many_concurrent_writers_wins_and_its_bytes_stay(self, storage: Storage, root: str) -> None:
        for n in range(5):
            bodies = [bytes([k]) * 10_000 for k in range(16)]
            won = await asyncio.gather(*[storage.put_new(root, f"deep/{n}/x", body) for body in bodies])
            assert won.count(True) == 1
            assert await storage.read(root, f"deep/{n}/x", limit=MUCH) == bodies[won.index(True)]

    async def test_put_unique_writes_all_bytes_and_replaces_no_object(self, storage: Storage, root: str) -> None:
        for path, data in (("a", b""), ("b/c/d", b"bytes"), ("large", bytes(range(256)) * 20_000)):
            await storage.put_unique(root, path, data)
            assert await storage.read(root, path, limit=MUCH) == data
            with pytest.raises(MoorageError):
                await storage.put_unique(root, path, b"second")
            assert await storage.read(root, path, limit=MUCH) == data

    async def test_put_again_replaces_an_existing_object(self, storage: Storage, root: str) -> None:
        for data in (b"first", b"", bytes(range(256)) * 20_000, b"last"):
            await storage.overwrite(root, "a/b", data)
            assert await storage.read(root, "a/b", limit=MUCH) == data
        assert [each.path for each in await storage.list(root, "")] == ["a/b"]

    async def test_every_store_can_sync_and_loses_nothing(self, storage: Storage, root: str) -> None:
        """Only a power cut could show that `sync` works. This checks that every store has it and loses no object."""
        await storage.sync()
        assert {type(await storage.put_unique(root, f"deep/{n}", b"x")) for n in range(3)} == {bool}
        await storage.sync()
        await storage.sync()
        assert len(await storage.list(root, "deep/")) == 3

    async def test_a_concurrent_reader_sees_all_bytes_or_no_object(self, storage: Storage, root: str) -> None:
        data = b"x" * 5_000_000
        writing = asyncio.create_task(storage.put_new(root, "a", data))
        seen = set()
        while not writing.done():
            seen.add(await storage.size(root, "a"))
        assert await writing
        assert seen <= {None, len(data)}

    async def test_an_object_above_the_limit_is_refused(self, storage: Storage, root: str) -> None:
        await storage.put_new(root, "a", b"12345")
        assert await storage.read(root, "a", limit=5) == b"12345"
        with pytest.raises(TooLarge):
            await storage.read(root, "a", limit=4)

    async def test_a_deleted_object_is_missing_and_can_be_put_again(self, storage: Storage, root: str) -> None:
        for path in ("a/b", "a/c"):
            await storage.put_new(root, path, b"x")
        await storage.delete(root, "a/b")
        assert await storage.read(root, "a/b", limit=MUCH) is None
        assert [await storage.is_missing(root, path, remote=True) for path in ("a/b", "a/c")] == [True, False]
        assert [await storage.is_missing(root, "a/b", other, remote=True) for other in ("a/c", "a/d")] == [False, True]
        assert await storage.read(root, "a/c", limit=MUCH) == b"x"
        assert await storage.put_new(root, "a/b", b"again")

    async def test_deleting_a_missing_object_succeeds(self, storage: Storage, root: str) -> None:
        await storage.put_new(root, "a/b", b"x")
        for path in ("c", "a", "a/b/c", "d/e"):
            await storage.delete(root, path)
        assert await storage.read(root, "a/b", limit=MUCH) == b"x"

    async def test_many_objects_are_deleted_together_and_others_stay(self, storage: Storage, base: str) -> None:
        root, many = f"{base}deep/t1/", [f"data/city=a%2Fb/{n}" for n in range(1_100)]
        for path in (*many[:2], *many[-2:], "data/theirs", "metadata/a"):
            await storage.put_new(root, path, b"x")
        await storage.delete_many(root, [*many, "metadata/a", "nothing/there"])
        assert [each.path for each in await storage.list(f"{base}deep/", "")] == ["t1/data/theirs"]
        await storage.delete_many(root, ["data/theirs"])
        assert await storage.list(base, "") == ()
        await storage.delete_many(root, ["data/theirs"])
        assert await storage.put_new(root, "data/theirs", b"again")

    # --- many objects --------------------------------------------------------------------------

    async def test_a_listing_has_all_objects_with_the_prefix_in_order(self, storage: Storage, root: str) -> None:
        for path in ("log/2", "log/1", "log/deep/3", "log2/1", "lo", "log/10"):
            await storage.put_new(root, path, path.encode())
        everything = await storage.list(root, "log/")
        assert [(each.path, each.size) for each in everything] == [
            ("log/1", 5),
            ("log/10", 6),
            ("log/2", 5),
            ("log/deep/3", 10),
        ]
        assert [each.path for each in await storage.list(root, "log/", after="log/10")] == ["log/2", "log/deep/3"]
        assert [each.path for each in await storage.list(root, "log/1")] == ["log/1", "log/10"]
        assert await storage.list(root, "nothing/") == ()

    async def test_delete_all_deletes_the_root_and_no_sibling(self, storage: Storage, base: str) -> None:
        for root in ("t1/", "t10/", "t/", "t1x/"):
            for path in ("a", "b/c/d", "b/e"):
                await storage.put_new(base + root, path, b"x")
        await storage.delete_all(f"{base}t1/")
        assert await storage.list(f"{base}t1/", "") == ()
        for root in ("t10/", "t/", "t1x/"):
            assert len(await storage.list(base + root, "")) == 3
        await storage.delete_all(f"{base}t1/")

    async def test_concurrent_delete_all_calls_leave_nothing(self, storage: Storage, root: str) -> None:
        for _ in range(5):
            await asyncio.gather(*[storage.put_new(root, f"d{n % 7}/{n}", b"x") for n in range(60)])
            await asyncio.gather(*[storage.delete_all(root) for _ in range(4)])
            assert await storage.list(root, "") == ()

    # --- no path leads out of its root -----------------------------------------------------------

    @pytest.mark.parametrize("path", INVALID_PATHS)
    async def test_an_invalid_path_is_refused(self, storage: Storage, root: str, path: str) -> None:
        await storage.put_new(root, "a/b", b"x")
        for call in (
            storage.read(root, path, limit=MUCH),
            storage.size(root, path),
            storage.put_new(root, path, b"x"),
            storage.overwrite(root, path, b"x"),
            storage.put_unique(root, path, b"x"),
            storage.delete(root, path),
            storage.delete_many(root, ["a/b", path]),
        ):
            with pytest.raises(InvalidInput) as refusal:
                await call
            assert refusal.value.field == "path"

    @pytest.mark.parametrize("path", UNUSUAL_PATHS)
    async def test_a_path_is_used_literally(self, storage: Storage, root: str, path: str) -> None:
        assert await storage.put_new(root, path, b"x")
        assert await storage.read(root, path, limit=MUCH) == b"x"
        assert [each.path for each in await storage.list(root, "")] == [path]
        await storage.delete(root, path)
        assert await storage.read(root, path, limit=MUCH) is None

    async def test_a_root_outside_the_configured_ones_is_refused(self, storage: Storage, base: str) -> None:
        beside = base.rstrip("/")
        for foreign in (f"{beside}x/", f"{base}../", f"{base}t1/../../", "ftp://elsewhere/t/", "relative/t/"):
            for call in (
                storage.read(foreign, "a", limit=MUCH),
                storage.is_missing(foreign, "a"),
                storage.put_new(foreign, "a", b"x"),
                storage.overwrite(foreign, "a", b"x"),
                storage.put_unique(foreign, "a", b"x"),
                storage.delete(foreign, "a"),
                storage.delete_many(foreign, ["a"]),
                storage.delete_all(foreign),
                storage.list(foreign, ""),
            ):
                with pytest.raises(InvalidInput):
                    await call

    async def test_the_locations_that_may_be_used_are_known(self, storage: Storage, base: str) -> None:
        assert base in storage.locations

    async def test_a_configured_root_is_never_deleted(self, storage: Storage, base: str) -> None:
        await storage.put_new(f"{base}t1/", "a", b"x")
        for whole in (base, base.rstrip("/"), f"{base}/"):
            with pytest.raises(InvalidInput):
                await storage.delete_all(whole)
        assert await storage.read(f"{base}t1/", "a", limit=MUCH) == b"x"
