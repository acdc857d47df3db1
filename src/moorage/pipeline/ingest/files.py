"""The files of a source, and which of them were taken.

Batches are planned before they are run: the list of their files is written beside the table, under a number that no
other run can take. A run that was killed leaves a planned batch, and the next run repeats exactly that one. The table
itself knows the number of its last batch, so a batch that was committed before the kill adds nothing the second time.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from pyarrow import fs

from moorage.pipeline.ingest.requests import INPUT_FORMATS, IngestRefused

_SUFFIXES: Final = {
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "csv": "csv",
    "tsv": "csv",
    "parquet": "parquet",
    "avro": "avro",
    "txt": "text",
    "log": "text",
    "text": "text",
}
_PACKED: Final = (".gz", ".bz2", ".zst", ".snappy", ".lz4")
_PATTERN: Final = frozenset("*?[")


class SourceFile(msgspec.Struct, frozen=True, order=True):
    path: str
    size: int
    modified_ms: int


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Files that become one version of the table."""

    number: int
    files: tuple[SourceFile, ...]
    overwrite: bool = False


class _Planned(msgspec.Struct, frozen=True, kw_only=True):
    batch: Batch
    is_done: bool


def find_files(source: str) -> list[SourceFile]:
    """The files of a source, the oldest first, so that for one key the newest row wins."""
    system, path = open_location(source)
    pattern = None
    if _PATTERN & set(path):
        pattern, path = path, _folder_of(path)
    found = system.get_file_info(path)
    if found.type == fs.FileType.NotFound:
        raise IngestRefused(f"the source '{source}' does not exist")
    infos = [found] if found.type == fs.FileType.File else system.get_file_info(fs.FileSelector(path, recursive=True))
    taken = (info for info in infos if info.type == fs.FileType.File and not _is_hidden(info.path, path))
    scheme = "" if isinstance(system, fs.LocalFileSystem) else "s3a://"
    files = [
        SourceFile(scheme + info.path, info.size, (info.mtime_ns or 0) // 1_000_000)
        for info in taken
        if pattern is None or fnmatch.fnmatchcase(info.path, pattern)
    ]
    return sorted(files, key=lambda file: (file.modified_ms, file.path))


def source_id(source: str) -> str:
    """The identity of a source. The same folder under another spelling has the same id."""
    system, path = open_location(source)
    return hashlib.sha256(f"{system.type_name}:{path}".encode()).hexdigest()[:16]


def location_of(source: str) -> str:
    """The source as a URI."""
    system, path = open_location(source)
    return Path(path).as_uri() if isinstance(system, fs.LocalFileSystem) else source


def input_format_of(files: Iterable[SourceFile], source: str) -> str:
    """The format that all file names tell."""
    found = {_format_of(file.path) for file in files}
    if len(found) == 1 and (only := found.pop()) is not None:
        return only
    raise IngestRefused(
        f"the names of the files in '{source}' tell no single format; add --input-format, one of "
        f"{', '.join(INPUT_FORMATS)}"
    )


def _format_of(path: str) -> str | None:
    name = path.rsplit("/", 1)[-1].lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return _SUFFIXES.get(name.rsplit(".", 1)[-1]) if "." in name else None


def open_location(source: str) -> tuple[fs.FileSystem, str]:
    """The file system of a location, and the path in it."""
    parts = urlsplit(source)
    if parts.scheme in ("", "file"):
        path = unquote(parts.path) if parts.scheme else source
        return fs.LocalFileSystem(), os.path.abspath(path)
    system, path = fs.FileSystem.from_uri(source.replace("s3a://", "s3://", 1))
    return system, path


def _folder_of(pattern: str) -> str:
    parts = pattern.split("/")
    plain = next(index for index, part in enumerate(parts) if _PATTERN & set(part))
    return "/".join(parts[:plain]) or "/"


def _is_hidden(path: str, root: str) -> bool:
    below = path.removeprefix(root).strip("/").split("/")
    return any(part.startswith((".", "_")) for part in below) or path.endswith((".tmp", ".crc"))


class BatchLog:
    """The batches of one source and table, in a folder on local disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def taken(self) -> dict[str, SourceFile]:
        """Every file of a planned batch, by its path."""
        return {file.path: file for planned in self._all() for file in planned.batch.files}

    def unfinished(self) -> Batch | None:
        """The batch that a killed run has left."""
        return next((planned.batch for planned in self._all() if not planned.is_done), None)

    def plan(self, files: Iterable[SourceFile], *, overwrite: bool = False) -> Batch:
        """Reserve the next number for these files. IngestRefused if another run takes it at the same time."""
        numbers = [planned.batch.number for planned in self._all()]
        batch = Batch(number=max(numbers, default=-1) + 1, files=tuple(files), overwrite=overwrite)
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            _write_new(self._folder / f"{batch.number:010}.batch", msgspec.json.encode(batch))
        except FileExistsError:
            raise IngestRefused("another ingest of the same source and table is running; wait until it ends") from None
        return batch

    def finish(self, batch: Batch) -> None:
        (self._folder / f"{batch.number:010}.done").touch()

    def _all(self) -> list[_Planned]:
        if not self._folder.is_dir():
            return []
        planned = []
        for file in sorted(self._folder.glob("*.batch")):
            batch = msgspec.json.decode(file.read_bytes(), type=Batch)
            planned.append(_Planned(batch=batch, is_done=file.with_suffix(".done").exists()))
        return planned


def _write_new(file: Path, data: bytes) -> None:
    """Write a file under a name that must be free. It appears whole: a kill leaves no half of it."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    with part.open("wb") as sink:
        sink.write(data)
        sink.flush()
        os.fsync(sink.fileno())
    try:
        os.link(part, file)
    finally:
        part.unlink()
