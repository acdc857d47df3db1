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
        system, folder = _folder_of(storage, table)
        found = system.get_file_info(fs.FileSelector(folder, recursive=True, allow_not_found=True))
    except (OSError, ValueError):
        return False
    return any("/commits/" in info.path and info.type == fs.FileType.File for info in found)


def can_read(storage: str) -> bool:
    """Whether this process can read the storage folder. A run has written to it before, so that it exists."""
    from pyarrow import fs

    try:
        system, root = _opened(storage)
        return bool(system.get_file_info(root).type == fs.FileType.Directory)
    except (OSError, ValueError):
        return False


def remove_checkpoints(storage: str, table: str) -> None:
    """Let the streams into a table begin with the first row of their sources."""
    system, folder = _folder_of(storage, table)
    system.delete_dir(folder)


def _folder_of(storage: str, table: str) -> tuple[Any, str]:
    system, root = _opened(storage)
    return system, f"{root.rstrip('/')}/_checkpoints/{'/'.join(table.split('.'))}"


def _opened(storage: str) -> tuple[Any, str]:
    from pyarrow import fs

    parts = urlsplit(storage)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), unquote(parts.path)
    found: tuple[Any, str] = fs.FileSystem.from_uri(storage.replace("s3a://", "s3://", 1))
    return found
