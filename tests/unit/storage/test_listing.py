"""What a listing of the local disk contains, and what it omits."""

import os
from pathlib import Path

import pytest

from moorage.core.errors import InvalidInput
from moorage.storage.local import LocalStorage
from moorage.storage.port import Listed


def _write_files(root: Path, *paths: str) -> str:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    return f"{root}/"


def _paths(listed: tuple[Listed, ...]) -> list[str]:
    return [entry.path for entry in listed]


async def test_a_listing_is_sorted_by_path_and_includes_subfolders(tmp_path: Path) -> None:
    root = _write_files(tmp_path, "log/b", "log/a", "log/_side/c", "log/a-b", "data/x")
    listed = await LocalStorage(tmp_path).list(root, "log/")
    assert _paths(listed) == ["log/_side/c", "log/a", "log/a-b", "log/b"]


async def test_a_listing_states_the_size_and_time_of_each_object(tmp_path: Path) -> None:
    root = _write_files(tmp_path, "log/a")
    os.utime(tmp_path / "log/a", ns=(0, 1_700_000_000_123_456_789))
    assert await LocalStorage(tmp_path).list(root, "log/") == (Listed("log/a", 5, 1_700_000_000_123),)


async def test_a_listing_starts_after_the_given_path(tmp_path: Path) -> None:
    root = _write_files(tmp_path, "log/1", "log/2", "log/3")
    assert _paths(await LocalStorage(tmp_path).list(root, "log/", after="log/1")) == ["log/2", "log/3"]


async def test_a_prefix_may_end_inside_a_name(tmp_path: Path) -> None:
    root = _write_files(tmp_path, "log/001.json", "log/002.json", "log/00_deep/x", "log/1.json", "log2/001.json")
    storage = LocalStorage(tmp_path)
    assert _paths(await storage.list(root, "log/00")) == ["log/001.json", "log/002.json", "log/00_deep/x"]
    assert _paths(await storage.list(root, "")) == [
        "log/001.json",
        "log/002.json",
        "log/00_deep/x",
        "log/1.json",
        "log2/001.json",
    ]


async def test_the_listing_of_a_missing_folder_is_empty(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert await storage.list(f"{tmp_path}/gone/", "log/") == ()
    assert await storage.list(f"{tmp_path}/", "log/") == ()


async def test_a_link_is_neither_listed_nor_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    _write_files(outside, "secret")
    root = _write_files(tmp_path / "root", "log/a")
    (tmp_path / "root/log/file").symlink_to(outside / "secret")
    (tmp_path / "root/log/folder").symlink_to(outside)
    assert _paths(await LocalStorage(tmp_path / "root").list(root, "log/")) == ["log/a"]


async def test_a_partially_written_object_is_not_listed(tmp_path: Path) -> None:
    root = _write_files(tmp_path, "log/a", "log/.b.0123456789abcdef.tmp")
    assert _paths(await LocalStorage(tmp_path).list(root, "log/")) == ["log/a"]


@pytest.mark.parametrize("prefix", ["../", "log/../../", "/etc/", "log//"])
async def test_a_prefix_that_is_not_a_path_below_the_root_is_refused(tmp_path: Path, prefix: str) -> None:
    with pytest.raises(InvalidInput):
        await LocalStorage(tmp_path).list(f"{tmp_path}/", prefix)
