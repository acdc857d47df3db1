"""Files and folders are opened by one call, unless a link is on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.storage.linux_calls import open_folder_without_links, open_if_cached


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder whose real path has no link in it."""
    folder = tmp_path.resolve() / "lake" / "log"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"content")
    return folder.parent


def test_a_folder_is_entered_where_no_link_leads_to_it(lake: Path) -> None:
    folder = open_folder_without_links(str(lake / "log"))
    assert folder is not None
    try:
        assert os.listdir(folder) == ["file"]
        assert not os.get_inheritable(folder)
    finally:
        os.close(folder)


@pytest.mark.parametrize("way", ["aside", "aside/deep", "log/file", "log/missing", "nowhere/log"])
def test_what_is_no_folder_or_behind_a_link_is_not_entered(lake: Path, way: str) -> None:
    (lake / "log" / "deep").mkdir()
    (lake / "aside").symlink_to(lake / "log")
    assert open_folder_without_links(str(lake / way)) is None


@pytest.mark.parametrize("link", ["log/link", "aside/file", "log/missing", "nowhere/file"])
def test_a_link_anywhere_on_the_way_opens_nothing(lake: Path, link: str) -> None:
    (lake / "log" / "link").symlink_to(lake / "log" / "file")
    (lake / "aside").symlink_to(lake / "log")
    assert open_if_cached(str(lake / link)) is None
