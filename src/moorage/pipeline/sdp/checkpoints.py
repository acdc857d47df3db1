"""The checkpoints of the streams of a project, in its storage folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

from moorage.core.pipelines import SPEC


def storage_of(files: Mapping[str, str]) -> str | None:
    """The storage folder that the project states."""
    import yaml

    spec = yaml.safe_load(files.get(SPEC, ""))
    storage = spec.get("storage") if isinstance(spec, dict) else None
    return storage if isinstance(storage, str) else None


def has_checkpoint(storage: str, table: str) -> bool:
    """Whether a stream into the table has committed a batch. Not known of a folder that this process cannot read."""
    from pyarrow import fs

    try:
        system, root = _opened(storage)
        folder = f"{root.rstrip('/')}/_checkpoints/{'/'.join(table.split('.'))}"
        found = system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    except (OSError, ValueError):
        return False
    return any("/commits/" in info.path and info.type == fs.FileType.File for info in found)


def _opened(storage: str) -> tuple[Any, str]:
    from pyarrow import fs

    parts = urlsplit(storage)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), unquote(parts.path)
    found: tuple[Any, str] = fs.FileSystem.from_uri(storage.replace("s3a://", "s3://", 1))
    return found
