"""A worker's access to the table of its job, and to the catalog, which decides about versions.

pylance accepts an object as a namespace and commits through it. The one here asks the server. So a write of the
server on behalf of a client becomes a version exactly as the client's own commits do: the server checks the staged
manifest and appends one ledger entry under the caller's name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from posixpath import normpath
from threading import Lock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from moorage.core.errors import Forbidden, MoorageError, SecurableNotFound, VersionNotFound, VersionTaken
from moorage.datasets.messages import Manifest, Question, StagedManifest
from moorage.processes.messages import Done, Refused

if TYPE_CHECKING:
    from lance import LanceDataset, Transaction

Ask = Callable[[Question], Done | Refused]

_INDEX_CACHE_BYTES = 256 * 1024 * 1024
_METADATA_CACHE_BYTES = 64 * 1024 * 1024


class JobTable:
    """The table of one job."""

    def __init__(self, location: str, ask: Ask, store: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._store = None if store is None else dict(store)
        self.namespace = Namespace(location, ask)

    @property
    def write_options(self) -> dict[str, Any]:
        """The options with which pylance finds the table through its namespace."""
        return {
            "namespace_client": self.namespace,
            "table_id": ["table"],
            "session": _session(),
            "storage_options": self._store,
        }

    def has_versions(self) -> bool:
        return self.namespace.newest(None) is not None

    def open(self, branch: str | None = None, version: int | None = None) -> LanceDataset:
        """Open the table at a version of a branch. The default is the newest version of the main line."""
        from lance import LanceDataset

        if self.namespace.newest(branch) is None:
            raise self._no_versions_error(branch)
        dataset = LanceDataset(
            self.location,
            version if branch is None else None,
            namespace_client_managed_versioning=True,
            **self.write_options,
        )
        if branch is not None:
            dataset = dataset.checkout_version((branch, version))
        self._require_own_files(dataset)
        return dataset

    def commit(self, dataset: LanceDataset, transaction: Transaction) -> LanceDataset:
        """Commit a transaction as the version after `dataset`. Raises CommitConflictError if that version is taken."""
        from lance import LanceDataset

        return LanceDataset.commit(
            dataset,
            transaction,
            max_retries=0,
            namespace_client=self.namespace,
            table_id=["table"],
            namespace_client_managed_versioning=True,
        )

    def _no_versions_error(self, branch: str | None) -> MoorageError:
        if branch is None:
            return VersionNotFound("the table is declared, but has no version yet; insert rows first")
        return SecurableNotFound(f"the table has no branch '{branch}'", field="branch", kind="branch")

    def _require_own_files(self, dataset: LanceDataset) -> None:
        """Raise Forbidden if the manifest names files outside the table: the server must not read those."""
        own = _folder(self.location)
        for base in dataset.base_paths().values():
            if not _folder(base.path).startswith(own):
                raise Forbidden(f"the table refers to files outside its location, at {base.path}; they are not read")


def _folder(path: str) -> str:
    """Return the normalised path, which has no ".." and ends with a slash."""
    return f"{normpath(unquote(path.removeprefix('file://')))}/"


@cache
def _session() -> Any:
    """One session for all jobs of this process, with bounded caches: pylance's own limit is many gigabytes."""
    import lance

    make_session: Any = vars(lance)["Session"]  # exported, but missing in pylance's type stubs
    return make_session(index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=_METADATA_CACHE_BYTES)


class Namespace:
    """A Lance namespace that contains one table. pylance calls its methods from its own threads."""

    def __init__(self, location: str, ask: Ask) -> None:
        self._location = location
        self._ask_server = ask
        self._lock = Lock()
        self.rows: dict[str, int] = {}
        """The number of rows that the next version inserts, updates or deletes."""
        self.refusal: MoorageError | None = None
        """Why the server refused the last commit, conflicts excepted. pylance reports only an unknown result."""
        self.conflict: VersionTaken | None = None
        """The conflict of the last commit. pylance then reads the version of the other writer, and retries."""
        self.failure: MoorageError | None = None
        """Why the last question was refused."""
        self.has_committed = False

    def namespace_id(self) -> str:
        return self._location

    def declare_table(self, _request: Any) -> SimpleNamespace:
        return SimpleNamespace(location=self._location, storage_options=None, managed_versioning=True)

    describe_table = declare_table

    def newest(self, branch: str | None) -> Manifest | None:
        found: Manifest | None = self._ask("newest", branch)
        return found

    def list_table_versions(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the head only: pylance asks for nothing else."""
        found = self.newest(request.get("branch"))
        return {"versions": [] if found is None else [msgspec.to_builtins(found)]}

    def at(self, branch: str | None, version: int) -> Manifest:
        found: Manifest = self._ask("at", branch, version)
        return found

    def describe_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"version": msgspec.to_builtins(self.at(request.get("branch"), request["version"]))}

    def create_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        self.refusal = self.conflict = None
        try:
            added = self._ask("add", msgspec.convert({**request, "rows": self.rows}, StagedManifest))
        except VersionTaken as error:
            self.conflict = error
            raise
        except MoorageError as error:
            self.refusal = error
            raise
        self.has_committed = True
        return {"version": msgspec.to_builtins(added)}

    def _ask(self, method: Any, *args: Any) -> Any:
        with self._lock:
            answer = self._ask_server(Question(method, args))
        match answer:
            case Refused(error=error):
                self.failure = error
                raise error
            case Done(result=result):
                self.failure = None
                return result
