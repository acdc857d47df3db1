"""A file is opened by one call, unless a link is on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moorage.storage.straight import open_straight


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A folder whose real path has no link in it."""
    folder = tmp_path.resolve() / "lake" / "log"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(b"content")
    return folder.parent


def test_a_file_is_opened_where_no_link_leads_to_it(lake: Path) -> None:
    file = open_straight(str(lake / "log" / "file"))
    assert file is not None
    try:
        assert os.read(file, 100) == b"content"
        assert not os.get_inheritable(file)
    finally:
        os.close(file)


@pytest.mark.parametrize("link", ["log/link", "aside/file", "log/missing", "nowhere/file"])
def test_a_link_anywhere_on_the_way_opens_nothing(lake: Path, link: str) -> None:
    (lake / "log" / "link").symlink_to(lake / "log" / "file")
    (lake / "aside").symlink_to(lake / "log")
    assert open_straight(str(lake / link)) is None
