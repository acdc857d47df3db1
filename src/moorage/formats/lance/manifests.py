"""Manifests: the file that makes a version of a Lance table, where it must lie and what it must look like.

A writer stages it beside its final name, `<final name>-<unique>`, and asks for the version; once that is
granted, anybody may copy it to the final name.
"""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import unquote

from moorage.core.errors import InvalidInput
from moorage.core.securables import MAIN
from moorage.formats.lance.messages import fields_of

LARGEST_VERSION = 2**63 - 1
_NEWEST_FIRST = 2**64 - 1
_FOLDER = "_versions/"
_TRANSACTIONS = "_transactions/"
_MAGIC = b"LANC"
_FOOTER_BYTES = 16
_LENGTH_BYTES = 4
_TRANSACTION_FIELD = 12
_NAME = re.compile(r"(\d{1,20})\.manifest(-[A-Za-z0-9_-]+)?")
_TRANSACTION = re.compile(rb"[A-Za-z0-9_-]+\.txn")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_BRANCH = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


class NamingScheme(StrEnum):
    """How the final name of a manifest is made of its version."""

    V1 = "V1"
    V2 = "V2"
    """Counted down, so that a listing begins with the newest."""


def final_name(version: int, scheme: NamingScheme) -> str:
    return f"{version}.manifest" if scheme is NamingScheme.V1 else f"{_NEWEST_FIRST - version:020}.manifest"


def manifest_folder(ref: str) -> str:
    """Where the manifests of a line lie: those of a branch in its own corner of the table."""
    return _FOLDER if ref == MAIN else f"tree/{ref}/{_FOLDER}"


def transaction_path(ref: str, name: str) -> str:
    """Where a line keeps what was done to make a version, by the name that the manifest gives it."""
    return manifest_folder(ref).removesuffix(_FOLDER) + _TRANSACTIONS + name


def require_branch(name: str | None) -> str:
    """The line that a request means; none is the main line."""
    if name is None:
        return MAIN
    if not _BRANCH.fullmatch(name) or any(part.strip(".") == "" for part in name.split("/")):
        raise InvalidInput(f"{name!r} is not the name of a branch", field="branch")
    return name


def version_in(name: str) -> tuple[int, NamingScheme] | None:
    """The version and scheme that a final name stands for; None if it is not one."""
    found = _NAME.fullmatch(name)
    if found is None or found[2]:
        return None
    digits = found[1]
    if len(digits) == 20:
        return _NEWEST_FIRST - int(digits), NamingScheme.V2
    return int(digits), NamingScheme.V1


def staged_version_in(name: str) -> int | None:
    """The version that Lance's own clients staged a manifest of this name for; None if it is another name."""
    final, _, unique = name.partition("-")
    found = version_in(final)
    return found[0] if found is not None and _UUID.fullmatch(unique) else None


def store_path(place: str, key: str) -> str:
    """A path as Lance's clients write it: from the root of the store, without a slash in front."""
    scheme, _, rest = place.partition("://")
    return (rest[1:] if scheme == "file" else rest.partition("/")[2]) + key


def require_key(
    place: str, path: str, *, ref: str, version: int, scheme: NamingScheme | None
) -> tuple[str, NamingScheme]:
    """The manifest's path below its table, and the scheme of its name.

    It must lie in the folder of its own line and bear the name of its version: else it is the manifest of
    another table, branch or version, or no manifest at all.
    """
    folder = manifest_folder(ref)
    for spelled in (path, unquote(path)):
        below = _below(place, spelled)
        if below is None or not below.startswith(folder):
            continue
        name = below[len(folder) :]
        for each in (scheme,) if scheme else NamingScheme:
            final = final_name(version, each)
            if name.startswith(final) and _NAME.fullmatch(name):
                return below, each
        raise InvalidInput(
            f"{name!r} is not the name of a manifest of version {version}; that is "
            f"{final_name(version, scheme or NamingScheme.V2)}-<unique>",
            field="manifest_path",
        )
    raise InvalidInput(f"{path!r} does not lie in the table's own {folder}", field="manifest_path")


def _below(place: str, path: str) -> str | None:
    if path.startswith(place):
        return path[len(place) :]
    base = store_path(place, "")
    bare = path.removeprefix("/")
    return bare[len(base) :] if bare.startswith(base) else None


def require_manifest(data: bytes, name: str, *, field: str = "manifest_path") -> None:
    """A manifest ends with its own position and Lance's mark; what lies at the position fills the rest."""
    body_end = len(data) - _FOOTER_BYTES
    start = _message_start(data)
    length = int.from_bytes(data[start - _LENGTH_BYTES : start], "little")
    if not data.endswith(_MAGIC) or not _LENGTH_BYTES <= start <= body_end or start + length != body_end:
        raise InvalidInput(f"{name!r} is no Lance manifest: its footer is wrong", field=field)


def transaction_of(data: bytes) -> str | None:
    """The name of the file that a manifest says its transaction is in; None if it names none."""
    for number, value in fields_of(data[_message_start(data) : -_FOOTER_BYTES]):
        if number == _TRANSACTION_FIELD and _TRANSACTION.fullmatch(value):
            return value.decode()
    return None


def _message_start(data: bytes) -> int:
    """Where a manifest's own message begins; 0 if it is too short to have one."""
    footer = len(data) - _FOOTER_BYTES
    return int.from_bytes(data[footer : footer + 8], "little") + _LENGTH_BYTES if footer >= 0 else 0
