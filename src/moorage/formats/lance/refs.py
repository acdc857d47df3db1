"""Tags and branches: small JSON files in `_refs/`, which every Lance client reads and writes by itself."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

import msgspec

from moorage.core.errors import Damaged, InvalidInput

TAGS = "_refs/tags/"
BRANCHES = "_refs/branches/"
_ENDING = ".json"
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_LONGEST = 200


class TagContents(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What a tag stands for."""

    version: int
    manifest_size: int
    branch: str | None = None


class BranchContents(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Where a branch began."""

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
        raise Damaged(f"{path} is no tag: {error}") from None


def parse_branch(data: bytes, path: str) -> BranchContents:
    try:
        return _parse_branch(data)
    except msgspec.DecodeError as error:
        raise Damaged(f"{path} is no branch: {error}") from None


def ref_path(folder: str, name: str) -> str:
    """The file of a tag or branch; the slash in the name of a branch is no folder there."""
    return f"{folder}{quote(name, safe='')}{_ENDING}"


def ref_name(folder: str, path: str) -> str | None:
    """The tag or branch whose file this is; None if it is no such file."""
    name = path.removeprefix(folder)
    return unquote(name.removesuffix(_ENDING)) if name.endswith(_ENDING) and "/" not in name else None


def require_tag_name(name: str) -> str:
    if not _is_name(name):
        raise InvalidInput(f"tag: {name!r} must be of letters, digits, '-', '_' and single dots inside", field="tag")
    return name


def require_new_branch_name(name: str) -> str:
    if name == "main" or not all(map(_is_name, name.split("/"))) or len(name) > _LONGEST:
        raise InvalidInput(
            f"name: {name!r} must be of letters, digits, '-', '_', single dots and slashes inside, and not 'main'",
            field="name",
        )
    return name


def _is_name(name: str) -> bool:
    return len(name) <= _LONGEST and _NAME.fullmatch(name) is not None and not name.endswith(".lock")
