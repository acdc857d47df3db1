"""Tags and branches: small JSON files in `_refs/`, which every Lance client reads and writes directly."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import msgspec

from moorage.core.errors import Damaged, InvalidInput

TAGS = "_refs/tags/"
BRANCHES = "_refs/branches/"
_SUFFIX = ".json"
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_MAX_LENGTH = 200


class TagContents(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The version that a tag names."""

    version: int
    manifest_size: int
    branch: str | None = None


class BranchContents(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The version at which a branch began."""

    parent_version: int
    create_at: int
    manifest_size: int
    parent_branch: str | None = None
    metadata: dict[str, str] = {}


_parse_tag = msgspec.json.Decoder(TagContents).decode
_parse_branch = msgspec.json.Decoder(BranchContents).decode


def parse_tag(data: bytes, path: str) -> TagContents:
    try:
        return _parse_tag(data)
    except msgspec.DecodeError as error:
        raise Damaged(f"{path} is not a valid tag: {error}") from None


def parse_branch(data: bytes, path: str) -> BranchContents:
    try:
        return _parse_branch(data)
    except msgspec.DecodeError as error:
        raise Damaged(f"{path} is not a valid branch: {error}") from None


def ref_path(folder: str, name: str) -> str:
    """The file of a tag or branch. A slash in a branch name is escaped and does not create a folder."""
    return f"{folder}{quote(name, safe='')}{_SUFFIX}"


def ref_name(folder: str, path: str) -> str | None:
    """The name of the tag or branch in this file path; None for other files."""
    name = path.removeprefix(folder)
    return unquote(name.removesuffix(_SUFFIX)) if name.endswith(_SUFFIX) and "/" not in name else None


def require_tag_name(name: str) -> str:
    if not _is_name(name):
        raise InvalidInput(
            f"tag: {name!r} must consist of letters, digits, '-', '_' and single inner dots", field="tag"
        )
    return name


def require_new_branch_name(name: str) -> str:
    if name == "main" or not all(map(_is_name, name.split("/"))) or len(name) > _MAX_LENGTH:
        raise InvalidInput(
            f"name: {name!r} must consist of letters, digits, '-', '_', single inner dots and slashes, "
            "and must not be 'main'",
            field="name",
        )
    return name


def _is_name(name: str) -> bool:
    return len(name) <= _MAX_LENGTH and _NAME.fullmatch(name) is not None and not name.endswith(".lock")
