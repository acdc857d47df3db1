"""One system call opens a file or folder, unless its path contains a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.storage.linux_calls import open_folder_without_links, open_if_cached


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder without a link in its path."""
    folder = tmp_path.resolve() / "lake" / "log"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"content")
    return folder.parent


def test_a_folder_without_a_link_in_its_path_is_opened(lake: Path) -> None:
    folder = open_folder_without_links(str(lake / "log"))
    assert folder is not None
    try:
        assert os.listdir(folder) == ["file"]
        assert not os.get_inheritable(folder)
    finally:
        os.close(folder)


@pytest.mark.parametrize("path", ["aside", "aside/deep", "log/file", "log/missing", "nowhere/log"])
def test_a_path_with_a_link_or_without_a_folder_is_not_opened(lake: Path, path: str) -> None:
    (lake / "log" / "deep").mkdir()
    (lake / "aside").symlink_to(lake / "log")
    assert open_folder_without_links(str(lake / path)) is None


@pytest.mark.parametrize("link", ["log/link", "aside/file", "log/missing", "nowhere/file"])
def test_a_file_with_a_link_in_its_path_is_not_opened(lake: Path, link: str) -> None:
    (lake / "log" / "link").symlink_to(lake / "log" / "file")
    (lake / "aside").symlink_to(lake / "log")
    assert open_if_cached(str(lake / link)) is None
