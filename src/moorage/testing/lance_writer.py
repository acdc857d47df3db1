"""A writer of Lance tables that stages manifests in a table's folder as pylance does, but writes no data."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

_LARGEST_VERSION = 2**64 - 1


def manifest(payload: bytes = b"no fields, no fragments") -> bytes:
    """Return bytes in the form of a manifest: length, payload, position of the payload, and Lance's magic bytes."""
    body = len(payload).to_bytes(4, "little") + payload
    return body + (0).to_bytes(8, "little") + (0).to_bytes(2, "little") + (2).to_bytes(2, "little") + b"LANC"


def transaction_field(name: str) -> bytes:
    """Return the field of a manifest that names its transaction file."""
    return b"\x62" + bytes([len(name)]) + name.encode()


def final_name(version: int, scheme: str = "V2") -> str:
    return f"{version}.manifest" if scheme == "V1" else f"{_LARGEST_VERSION - version:020}.manifest"


def folder_of(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def file_of(manifest_path: str) -> Path:
    """Return the file of a path that starts at the root of the store."""
    return Path("/") / manifest_path


def stage(
    location: str, version: int, *, branch: str | None = None, scheme: str = "V2", data: bytes | None = None
) -> dict[str, Any]:
    """Write a staged manifest, and return the body of the client's request for it."""
    versions = f"tree/{branch}/_versions" if branch else "_versions"
    file = folder_of(location) / versions / f"{final_name(version, scheme)}-{uuid4()}"
    file.parent.mkdir(parents=True, exist_ok=True)
    content = manifest(uuid4().bytes) if data is None else data
    file.write_bytes(content)
    request = {
        "version": version,
        "manifest_path": str(file).lstrip("/"),
        "manifest_size": len(content),
        "e_tag": f'"{file.name[-8:]}"',
        "naming_scheme": scheme,
    }
    return request if branch is None else {**request, "branch": branch}
