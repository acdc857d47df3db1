"""Files below the location of a table: on local disk, or in an object store that pyarrow can open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from pyarrow import fs

Storage = dict[str, str]
"""Arguments of pyarrow's S3FileSystem: access_key, secret_key, session_token, region, endpoint_override."""


def open_location(location: str, storage: Storage) -> tuple[fs.FileSystem, str]:
    """The file system of a location, and its path there."""
    parts = urlsplit(location)
    if parts.scheme in ("", "file"):
        return fs.LocalFileSystem(), unquote(parts.path).rstrip("/")
    if parts.scheme in ("s3", "s3a"):
        return fs.S3FileSystem(**storage), f"{parts.netloc}{parts.path}".rstrip("/")
    raise ValueError(f"the location {location!r} is neither on local disk nor in S3")


@contextmanager
def new_file(location: str, path: str, storage: Storage) -> Iterator[Any]:
    """Write a new file. On local disk it is durable when this returns, because a commit is about to name it."""
    system, root = open_location(location, storage)
    target = f"{root}/{path}"
    if not isinstance(system, fs.LocalFileSystem):
        with system.open_output_stream(target) as sink:
            yield sink
        return
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    with Path(target).open("xb") as sink:
        yield sink
        sink.flush()
        os.fsync(sink.fileno())


def put_file(location: str, path: str, data: bytes, storage: Storage) -> None:
    with new_file(location, path, storage) as sink:
        sink.write(data)


def read_file(location: str, path: str, storage: Storage) -> bytes:
    system, root = open_location(location, storage)
    with system.open_input_file(f"{root}/{path}") as source:
        return bytes(source.read())
