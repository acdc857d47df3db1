"""The files of a source."""

from __future__ import annotations

import fnmatch
import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

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
PACKED: Final = (".gz", ".bz2", ".zst", ".snappy", ".lz4")
_GLOB: Final = re.compile(r"[\[\]{}*?\\]")
_PATTERN: Final = frozenset("*?[")


class SourceFile(msgspec.Struct, frozen=True, order=True):
    path: str
    size: int
    modified_ms: int


class UnreadableFile(ValueError):
    """A file cannot be read. The message has its location, as errors of Spark do."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{location_of(path)}: {reason}")


def find_files(source: str) -> list[SourceFile]:
    """The files of a source, the oldest first, so that for one key the newest row wins."""
    try:
        return _files_of(source)
    except OSError as error:
        raise IngestRefused(f"the source '{source}' cannot be read: {error}") from error


def _files_of(source: str) -> list[SourceFile]:
    system, path = open_location(source)
    pattern = None
    if _PATTERN & set(path):
        pattern, path = path, _folder_of(path)
    found = system.get_file_info(path)
    if found.type == fs.FileType.NotFound:
        raise IngestRefused(f"the source '{source}' does not exist")
    if found.type == fs.FileType.File and found.base_name.startswith((".", "_")):
        raise IngestRefused(f"the source '{source}' is a hidden file, which Spark does not read; rename it")
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
    for suffix in PACKED:
        name = name.removesuffix(suffix)
    return _SUFFIXES.get(name.rsplit(".", 1)[-1]) if "." in name else None


def open_location(source: str) -> tuple[fs.FileSystem, str]:
    """The file system of a location, and the path in it."""
    parts = urlsplit(source)
    if parts.scheme in ("", "file"):
        path = unquote(parts.path) if parts.scheme else source
        return fs.LocalFileSystem(), os.path.abspath(path)
    if parts.scheme not in ("s3", "s3a"):
        raise IngestRefused(f"the source '{source}' is neither on local disk nor in S3")
    if parts.scheme == "s3a":  # as found: its characters are not encoded
        source = f"s3://{quote(source.removeprefix('s3a://'))}"
    system, path = fs.FileSystem.from_uri(source)
    return system, path


def spark_paths(paths: Iterable[str]) -> list[str]:
    """The paths of files for Spark, which takes some characters for those of a pattern."""
    return [_GLOB.sub(r"\\\g<0>", path) for path in paths]


def require_distinct(path: str, names: Iterable[str]) -> None:
    """UnreadableFile if two names are those of one column, which has no regard to case."""
    seen = set[str]()
    for name in names:
        if name.lower() in seen:
            raise UnreadableFile(path, f"the column {name!r} is in it twice")
        seen.add(name.lower())


def _folder_of(pattern: str) -> str:
    parts = pattern.split("/")
    plain = next(index for index, part in enumerate(parts) if _PATTERN & set(part))
    return "/".join(parts[:plain]) or "/"


def _is_hidden(path: str, root: str) -> bool:
    below = path.removeprefix(root).strip("/").split("/")
    return any(part.startswith((".", "_")) for part in below) or path.endswith((".tmp", ".crc"))
