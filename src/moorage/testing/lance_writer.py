"""A writer of Lance tables that does what pylance does with the folder of one: staged manifests, without data."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

_NEWEST_FIRST = 2**64 - 1


def manifest(payload: bytes = b"no fields, no fragments") -> bytes:
    """Bytes that look like a manifest: what it says, with its length, where that begins, and Lance's mark."""
    body = len(payload).to_bytes(4, "little") + payload
    return body + (0).to_bytes(8, "little") + (0).to_bytes(2, "little") + (2).to_bytes(2, "little") + b"LANC"


def transaction_field(name: str) -> bytes:
    """What a manifest says of the file that its transaction is in."""
    return b"\x62" + bytes([len(name)]) + name.encode()


def final_name(version: int, scheme: str = "V2") -> str:
    return f"{version}.manifest" if scheme == "V1" else f"{_NEWEST_FIRST - version:020}.manifest"


def folder_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def file_of(manifest_path: str) -> Path:
    """The file behind a path that begins at the root of the store."""
    return Path("/") / manifest_path


def stage(
    location: str, version: int, *, branch: str | None = None, scheme: str = "V2", data: bytes | None = None
) -> dict[str, Any]:
    """Write a staged manifest, and what a client then says of it."""
    corner = f"tree/{branch}/_versions" if branch else "_versions"
    file = folder_of(location) / corner / f"{final_name(version, scheme)}-{uuid4()}"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = manifest(uuid4().bytes) if data is None else data
    file.write_bytes(content)
    said = {
        "version": version,
        "manifest_path": str(file).lstrip("/"),
        "manifest_size": len(content),
        "e_tag": f'"{file.name[-8:]}"',
        "naming_scheme": scheme,
    }
    return said if branch is None else {**said, "branch": branch}
