"""Where a worker does its job: the table in front of it, and the catalog at hand for every question of versions.

pylance takes an object for a namespace and commits through it. The one here asks the server, so what the
server writes on behalf of a client becomes a version exactly as the client's own commits do: a staged
manifest, checked, one entry in the ledger under the caller's name.
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
from moorage.datasets.talk import Done, Manifest, Question, Refused, StagedManifest

if TYPE_CHECKING:
    from lance import LanceDataset, Transaction

Ask = Callable[[Question], Done | Refused]

_INDEX_CACHE_BYTES = 256 * 1024 * 1024
_METADATA_CACHE_BYTES = 64 * 1024 * 1024


class Desk:
    """The table of one job."""

    def __init__(self, location: str, ask: Ask, store: Mapping[str, str] | None = None) -> None:
        self.location = location
        self._store = None if store is None else dict(store)
        self.namespace = Namespace(location, ask)

    @property
    def write_options(self) -> dict[str, Any]:
        """How pylance reaches the table by its namespace."""
        return {
            "namespace_client": self.namespace,
            "table_id": ["table"],
            "session": _session(),
            "storage_options": self._store,
        }

    def has_versions(self) -> bool:
        return self.namespace.newest(None) is not None

    def open(self, branch: str | None = None, version: int | None = None) -> LanceDataset:
        """The table at a version of a branch; without them at the newest of the main line."""
        from lance import LanceDataset

        if self.namespace.newest(branch) is None:
            raise self._nothing_at(branch)
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
        """What was prepared on a version becomes the next one; CommitConflictError if that is taken."""
        from lance import LanceDataset

        return LanceDataset.commit(
            dataset,
            transaction,
            max_retries=0,
            namespace_client=self.namespace,
            table_id=["table"],
            namespace_client_managed_versioning=True,
        )

    def _nothing_at(self, branch: str | None) -> MoorageError:
        if branch is None:
            return VersionNotFound("the table is declared, but has no version yet")
        return SecurableNotFound(f"there is no branch '{branch}'", field="branch", kind="branch")

    def _require_own_files(self, dataset: LanceDataset) -> None:
        """A manifest may point at files anywhere; the server reads those of the table and no others."""
        own = _folder(self.location)
        for base in dataset.base_paths().values():
            if not _folder(base.path).startswith(own):
                raise Forbidden(f"the table refers to files outside of it, at {base.path}")


def _folder(place: str) -> str:
    """Without steps that lead elsewhere, and with a slash at its end."""
    return f"{normpath(unquote(place.removeprefix('file://')))}/"


@cache
def _session() -> Any:
    """One for all jobs of this process: its caches may hold so much, and pylance's own limit is many gigabytes."""
    import lance

    make: Any = vars(lance)["Session"]  # exported, and yet its types say that it is not
    return make(index_cache_size_bytes=_INDEX_CACHE_BYTES, metadata_cache_size_bytes=_METADATA_CACHE_BYTES)


class Namespace:
    """The one table that pylance may see. Its methods are called from pylance's own threads."""

    def __init__(self, location: str, ask: Ask) -> None:
        self._location = location
        self._ask_server = ask
        self._lock = Lock()
        self.rows: dict[str, int] = {}
        """How many rows the next version inserts, updates or deletes."""
        self.refusal: MoorageError | None = None
        """Why the last commit was refused, unless somebody was faster: pylance only says that it does not know."""
        self.lost: VersionTaken | None = None
        """Of the last commit, that somebody was faster: pylance looks who that was, and tries again."""
        self.failure: MoorageError | None = None
        """Why the last question got no answer."""
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
        """pylance asks for the head only."""
        found = self.newest(request.get("branch"))
        return {"versions": [] if found is None else [msgspec.to_builtins(found)]}

    def at(self, branch: str | None, version: int) -> Manifest:
        found: Manifest = self._ask("at", branch, version)
        return found

    def describe_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        return {"version": msgspec.to_builtins(self.at(request.get("branch"), request["version"]))}

    def create_table_version(self, request: dict[str, Any]) -> dict[str, Any]:
        self.refusal = self.lost = None
        try:
            added = self._ask("add", msgspec.convert({**request, "rows": self.rows}, StagedManifest))
        except VersionTaken as error:
            self.lost = error
            raise
        except MoorageError as error:
            self.refusal = error
            raise
        self.has_committed = True
        return {"version": msgspec.to_builtins(added)}

    def _ask(self, method: Any, *given: Any) -> Any:
        with self._lock:
            answer = self._ask_server(Question(method, given))
        match answer:
            case Refused(error=error):
                self.failure = error
                raise error
            case Done(result=result):
                self.failure = None
                return result
