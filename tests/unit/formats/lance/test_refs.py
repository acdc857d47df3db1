"""The names and files of tags and branches."""

from __future__ import annotations

import pytest

from moorage.core.errors import Damaged, InvalidInput
from moorage.formats.lance.refs import (
    BRANCHES,
    TAGS,
    TagContents,
    parse_branch,
    parse_tag,
    ref_name,
    ref_path,
    require_new_branch_name,
    require_tag_name,
)

TAG = b"""{"branch": null, "version": 2, "createdAt": "2026-11-15T13:14:07Z", "manifestSize": 460, "metadata": {}}"""
BRANCH = b"""{
  "parentBranch": "dev", "identifier": {"version_mapping": [[2, "af35"]]}, "parentVersion": 2,
  "createAt": 1794748447, "manifestSize": 512, "metadata": {"a": "b"}
}"""


def test_tag_and_branch_files_of_clients_are_parsed() -> None:
    assert parse_tag(TAG, "x") == TagContents(version=2, manifest_size=460)
    branch = parse_branch(BRANCH, "x")
    assert (branch.parent_branch, branch.parent_version, branch.metadata) == ("dev", 2, {"a": "b"})


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"version": "1"}', TAG[:20]])
def test_an_invalid_tag_or_branch_file_is_damaged(data: bytes) -> None:
    with pytest.raises(Damaged, match="not a valid tag"):
        parse_tag(data, "_refs/tags/x.json")
    with pytest.raises(Damaged, match="not a valid branch"):
        parse_branch(data, "_refs/branches/x.json")


@pytest.mark.parametrize("name", ["dev", "bug/fix-1", "a.b_c"])
def test_a_name_is_recovered_from_its_file(name: str) -> None:
    assert ref_name(BRANCHES, ref_path(BRANCHES, name)) == name
    assert "/" not in ref_path(TAGS, name).removeprefix(TAGS)


@pytest.mark.parametrize("path", ["_refs/tags/x.txt", "_refs/tags/deeper/x.json"])
def test_other_files_are_not_tags(path: str) -> None:
    assert ref_name(TAGS, path) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", ".a", "a.", "a..b", "x.lock", "x" * 201])
def test_a_tag_name_that_lance_rejects_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="tag"):
        require_tag_name(name)


@pytest.mark.parametrize("name", ["", "main", "/a", "a/", "a//b", "a/../b", "a\\b", "x" * 201])
def test_a_branch_name_that_lance_rejects_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        require_new_branch_name(name)


@pytest.mark.parametrize("name", ["dev", "v1.0", "a/b/c", "-x_", "main/line"])
def test_ordinary_branch_names_are_accepted(name: str) -> None:
    assert require_new_branch_name(name) == name
