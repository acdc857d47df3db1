"""Which files of a source were taken, in batches that are planned before they run.

The list of a batch's files is written beside the table, under a number that no other run can take. A run that was
killed leaves a planned batch, and the next run repeats exactly that one. The table itself knows the number of its last
batch, so a batch that was committed before the kill adds nothing the second time.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from moorage.pipeline.ingest.files import SourceFile
from moorage.pipeline.ingest.requests import IngestRefused

if TYPE_CHECKING:
    from obstore.store import S3Store

_RUNNING: Final = "another ingest of the same source and table is running; wait until it ends"
_READERS: Final = 16
_STORE_KEYS: Final = {
    "access_key": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
    "region": "region",
    "endpoint_override": "endpoint",
}


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Files that become one version of the table."""

    number: int
    files: tuple[SourceFile, ...]
    overwrite: bool = False


class _Planned(msgspec.Struct, frozen=True, kw_only=True):
    batch: Batch
    is_done: bool


class BatchFolder(Protocol):
    """Small files that are written once and stay as long as the table."""

    def names(self) -> list[str]: ...

    def read(self, name: str) -> bytes: ...

    def create(self, name: str, data: bytes) -> None:
        """Write a file whole. FileExistsError if the name is taken."""

    def remove(self, name: str) -> None: ...

    def held(self) -> AbstractContextManager[None]:
        """While the context is open, no other run on this machine can hold the folder. IngestRefused if one does."""


class BatchLog:
    """The batches of one source and table."""

    def __init__(self, folder: BatchFolder) -> None:
        self._folder = folder
        self._last = -1
        """The newest batch that this log has read or planned."""
        self._open: set[int] = set()
        """The batches that were not finished when this log read them, nor by this run since."""

    def held(self) -> AbstractContextManager[None]:
        """For one run: a second one would take its batch for one that a kill has left, and repeat it."""
        return self._folder.held()

    def taken(self) -> dict[str, SourceFile]:
        """Every file of a planned batch, by its path."""
        return {file.path: file for planned in self._all() for file in planned.batch.files}

    def unfinished(self) -> Batch | None:
        """The batch that a killed run has left."""
        return next((planned.batch for planned in self._all() if not planned.is_done), None)

    def plan(self, files: Iterable[SourceFile], *, overwrite: bool = False) -> Batch:
        """Reserve the next number for these files, which were compared with those of the batches that were read.

        IngestRefused if another run has planned a batch since: its files may be the same. Also if a batch is open: a
        table that has a later batch ignores or refuses an earlier one, so the rows of the open one would be lost.
        """
        if self._open:
            raise IngestRefused(_RUNNING)
        batch = Batch(number=self._last + 1, files=tuple(files), overwrite=overwrite)
        try:
            self._folder.create(f"{batch.number:010}.batch", msgspec.json.encode(batch))
        except FileExistsError:
            raise IngestRefused(_RUNNING) from None
        self._last = batch.number
        return batch

    def withdraw(self, batch: Batch) -> None:
        """Forget a batch that was planned and not run."""
        self._folder.remove(f"{batch.number:010}.batch")
        self._last = batch.number - 1

    def finish(self, batch: Batch) -> None:
        with suppress(FileExistsError):
            self._folder.create(f"{batch.number:010}.done", b"")
        self._open.discard(batch.number)

    def _all(self) -> list[_Planned]:
        names = set(self._folder.names())
        planned = sorted(name for name in names if name.endswith(".batch"))
        with ThreadPoolExecutor(_READERS) as pool:
            batches = [msgspec.json.decode(data, type=Batch) for data in pool.map(self._folder.read, planned)]
        self._last = max((batch.number for batch in batches), default=-1)
        found = [_Planned(batch=batch, is_done=f"{batch.number:010}.done" in names) for batch in batches]
        self._open = {planned.batch.number for planned in found if not planned.is_done}
        return found


class LocalFolder:
    """A folder on local disk."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        return os.listdir(self._path) if self._path.is_dir() else []

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()

    def create(self, name: str, data: bytes) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        part = self._path / f".{name}.{os.getpid()}"
        with part.open("wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        try:
            os.link(part, self._path / name)
        finally:
            part.unlink()

    def remove(self, name: str) -> None:
        (self._path / name).unlink()

    @contextmanager
    def held(self) -> Iterator[None]:
        self._path.mkdir(parents=True, exist_ok=True)
        with (self._path / ".lock").open("w") as lock:  # the system releases it when this process ends, however it ends
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IngestRefused(_RUNNING) from None
            yield


class StoreFolder:
    """A folder in S3. Every machine sees it, also one that has never run this ingest."""

    def __init__(self, location: str, keys: Callable[[], dict[str, str]]) -> None:
        self._location, self._keys = location, keys

    def names(self) -> list[str]:
        return [str(found["path"]) for page in self._store().list() for found in page]

    def read(self, name: str) -> bytes:
        return bytes(self._store().get(name).bytes())

    def create(self, name: str, data: bytes) -> None:
        from obstore.exceptions import AlreadyExistsError

        try:
            self._store().put(name, data, mode="create")
        except AlreadyExistsError:
            raise FileExistsError(name) from None

    def remove(self, name: str) -> None:
        self._store().delete(name)

    def held(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _store(self) -> S3Store:
        """Opened anew each time: temporary keys expire while a batch runs."""
        from obstore.store import S3Store

        parts, given = urlsplit(self._location), self._keys()
        settings = {_STORE_KEYS[name]: value for name, value in given.items()}
        return S3Store(
            parts.netloc,
            prefix=parts.path.strip("/"),
            virtual_hosted_style_request="endpoint" not in settings,
            client_options={"allow_http": True},
            **settings,  # type: ignore[arg-type]
        )
