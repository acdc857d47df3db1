"""Manifests: the file that defines a version of a Lance table, its location and its format.

A writer stages a manifest beside its final name as `<final name>-<unique>` and requests the version. After the
version is ratified, any client may copy the manifest to its final name.
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
    """How the final name of a manifest is derived from its version."""

    V1 = "V1"
    V2 = "V2"
    """Numbers count down, so that a listing begins with the newest version."""


def final_name(version: int, scheme: NamingScheme) -> str:
    return f"{version}.manifest" if scheme is NamingScheme.V1 else f"{_NEWEST_FIRST - version:020}.manifest"


def manifest_folder(ref: str) -> str:
    """The folder of a line's manifests. Each branch has its own folder inside the table."""
    return _FOLDER if ref == MAIN else f"tree/{ref}/{_FOLDER}"


def transaction_path(ref: str, name: str) -> str:
    """The path of a line's transaction file, by the name that is in the manifest."""
    return manifest_folder(ref).removesuffix(_FOLDER) + _TRANSACTIONS + name


def require_branch(name: str | None) -> str:
    """The line that a request names. Without a name it is the main line."""
    if name is None:
        return MAIN
    if not _BRANCH.fullmatch(name) or any(part.strip(".") == "" for part in name.split("/")):
        raise InvalidInput(f"{name!r} is not a valid branch name", field="branch")
    return name


def version_in(name: str) -> tuple[int, NamingScheme] | None:
    """The version and scheme of a final name; None if it is not a final name."""
    found = _NAME.fullmatch(name)
    if found is None or found[2]:
        return None
    digits = found[1]
    if len(digits) == 20:
        return _NEWEST_FIRST - int(digits), NamingScheme.V2
    return int(digits), NamingScheme.V1


def staged_version_in(name: str) -> int | None:
    """The version in the name of a manifest that Lance's own clients staged; None for other names."""
    final, _, unique = name.partition("-")
    found = version_in(final)
    return found[0] if found is not None and _UUID.fullmatch(unique) else None


def store_path(location: str, key: str) -> str:
    """A path as Lance's clients write it: relative to the root of the store, without a leading slash."""
    scheme, _, rest = location.partition("://")
    return (rest[1:] if scheme == "file" else rest.partition("/")[2]) + key


def require_key(
    location: str, path: str, *, ref: str, version: int, scheme: NamingScheme | None
) -> tuple[str, NamingScheme]:
    """The manifest's path below its table, and the scheme of its name.

    It must be in the folder of its own line and have the name of its version. Otherwise it is the manifest of
    another table, branch or version, or not a manifest.
    """
    folder = manifest_folder(ref)
    for candidate in (path, unquote(path)):
        below = _below(location, candidate)
        if below is None or not below.startswith(folder):
            continue
        name = below[len(folder) :]
        for each in (scheme,) if scheme else NamingScheme:
            final = final_name(version, each)
            if name.startswith(final) and _NAME.fullmatch(name):
                return below, each
        raise InvalidInput(
            f"{name!r} is not the name of a manifest of version {version}; it must be "
            f"{final_name(version, scheme or NamingScheme.V2)}-<unique>",
            field="manifest_path",
        )
    raise InvalidInput(f"{path!r} is not in the table's own {folder}", field="manifest_path")


def _below(location: str, path: str) -> str | None:
    if path.startswith(location):
        return path[len(location) :]
    base = store_path(location, "")
    bare = path.removeprefix("/")
    return bare[len(base) :] if bare.startswith(base) else None


def require_manifest(data: bytes, name: str, *, field: str = "manifest_path") -> None:
    """Check the footer: a manifest ends with its own position and Lance's magic, and fills the file from there."""
    body_end = len(data) - _FOOTER_BYTES
    start = _message_start(data)
    length = int.from_bytes(data[start - _LENGTH_BYTES : start], "little")
    if not data.endswith(_MAGIC) or not _LENGTH_BYTES <= start <= body_end or start + length != body_end:
        raise InvalidInput(f"{name!r} is not a Lance manifest: its footer is wrong", field=field)


def transaction_of(data: bytes) -> str | None:
    """The name of the transaction file in a manifest; None if there is none."""
    for number, value in fields_of(data[_message_start(data) : -_FOOTER_BYTES]):
        if number == _TRANSACTION_FIELD and _TRANSACTION.fullmatch(value):
            return value.decode()
    return None


def _message_start(data: bytes) -> int:
    """The offset of the manifest's message; 0 if the file is too short to have one."""
    footer = len(data) - _FOOTER_BYTES
    return int.from_bytes(data[footer : footer + 8], "little") + _LENGTH_BYTES if footer >= 0 else 0
