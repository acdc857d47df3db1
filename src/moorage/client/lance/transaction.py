"""Ordinary pylance writes to several tables, kept back and made history by one batch commit."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from lance_namespace import (
    BatchCommitTablesRequest,
    CommitTableOperation,
    ConcurrentModificationError,
    CreateTableVersionRequest,
    CreateTableVersionResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DescribeNamespaceRequest,
    DescribeNamespaceResponse,
    DescribeTableRequest,
    DescribeTableResponse,
    DescribeTableVersionRequest,
    DescribeTableVersionResponse,
    InvalidInputError,
    LanceNamespace,
    ListNamespacesRequest,
    ListNamespacesResponse,
    ListTablesRequest,
    ListTablesResponse,
    ListTableVersionsRequest,
    ListTableVersionsResponse,
    NamespaceExistsRequest,
    NamespaceExistsResponse,
    TableAlreadyExistsError,
    TableExistsRequest,
    TableExistsResponse,
    TableVersion,
    TableVersionNotFoundError,
    UnsupportedOperationError,
)

from moorage.client.lance.readable import ReadableManifests
from moorage.client.operations import LanceDeclare, LanceVersion

if TYPE_CHECKING:
    from moorage.client.lance.lake import Lake

R = TypeVar("R")
Item = TypeVar("Item")
TableId = tuple[str, ...]
Listing: TypeAlias = ListTablesRequest | ListTableVersionsRequest

_OWN: Final = "transaction:"
"""Begins the page tokens of what only the transaction knows; the lake's own pages come after it."""
_CLEANS_UP: Final = re.compile(rb"lance\.auto_cleanup\.interval")
"""The setting of a table whose every so many commits delete old versions."""
_ONLY_RESERVES: Final = re.compile(rb"\x12\$[0-9a-f-]{36}\xda\x06")
"""A transaction's id, and that it reserves numbers for new fragments, as Lance writes both into a manifest."""


class Transaction(LanceNamespace):
    """The lake as it will be after the transaction: give it to pylance in place of the lake.

    Tables that are declared and versions that are created through it are seen through it at once, and by
    nobody else. At the end of the `with` block one batch commit makes all of them history, or none; an
    exception leaves the lake as it was. What the namespace could not take back is refused. Datasets that were
    opened through a transaction end with it.
    """

    def __init__(self, lake: Lake, storage_options: dict[str, str] | None = None) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        self._operations: list[CommitTableOperation] = []
        self._declared: dict[TableId, DeclareTableResponse] = {}
        self._versions: dict[tuple[TableId, str | None], list[CreateTableVersionRequest]] = {}
        self._readable = ReadableManifests(storage_options)
        self._end: str | None = None
        self.transaction_id: str | None = None
        """What the server calls the transaction, once it is committed."""

    # --- its life -------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end is None:
            self.commit() if error is None else self.rollback()

    def commit(self) -> None:
        """Everything that was written becomes history now, in one entry, or nothing does."""
        operations = self._close("not committed")
        try:
            if operations:
                answer = self._lake.batch_commit_tables(BatchCommitTablesRequest(operations=operations))
                self.transaction_id = answer.transaction_id
            self._end = "committed"
        finally:
            self._readable.remove()

    def hand_over(self) -> list[LanceDeclare | LanceVersion]:
        """What was kept back as operations for `Client.transact`, beside those of other formats. It ends with that."""
        operations = self._close("handed over")
        self._readable.remove()
        return [_handed_over(each) for each in operations]

    def rollback(self) -> None:
        """Nothing of it happened. Files that were written stay behind, unknown to any version."""
        self._close("rolled back")
        self._readable.remove()

    def _close(self, end: str) -> list[CommitTableOperation]:
        with self._lock:
            self._require_open()
            self._end = end
        return self._operations

    def _require_open(self) -> None:
        if self._end is not None:
            raise InvalidInputError(f"the transaction was {self._end}; begin another one, and open its tables again")

    # --- what is kept back ----------------------------------------------------------------------

    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        sent = _parse(request, DeclareTableRequest)
        id = tuple(sent.id or ())
        staged = self._lake.stage_table(sent)
        with self._open_lock():
            if id in self._declared:
                raise TableAlreadyExistsError(f"table {list(id)} was declared before in this transaction")
            sent.location = staged.location
            self._operations.append(CommitTableOperation(declare_table=sent))
            self._declared[id] = staged
        return staged

    def create_table_version(self, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
        sent = _parse(request, CreateTableVersionRequest)
        with self._open_lock():
            line = self._versions.setdefault((tuple(sent.id or ()), sent.branch), [])
            if line and line[-1].version == sent.version and self._is_in(line[-1], _ONLY_RESERVES):
                self._forget(line.pop())
            if any(own.version == sent.version for own in line):
                # A handle that is behind. To rebase it, pylance would have to find this version under its final name.
                raise ConcurrentModificationError(f"the transaction has version {sent.version} of {sent.id} already")
            if line:
                self._require_no_clean_up(sent)
            line.append(sent)
            self._operations.append(CommitTableOperation(create_table_version=sent))
        return CreateTableVersionResponse(version=_version(sent, sent.manifest_path))

    def _require_no_clean_up(self, sent: CreateTableVersionRequest) -> None:
        """Refuse a version after which pylance would clean up, unless it builds on a version of the lake.

        It looks into `_versions` for what is still needed, and finds none of the transaction's own versions there: so
        it would delete the newest version of the lake, and the files that both have in common.
        """
        if self._is_in(sent, _CLEANS_UP):
            raise UnsupportedOperationError(
                f"{sent.id} deletes its old versions by itself: write to it once in a transaction, or call "
                "`disable_auto_cleanup` before"
            )

    def _is_in(self, version: CreateTableVersionRequest, words: re.Pattern[bytes]) -> bool:
        return self._readable.mentions(words, version, self.describe_table(DescribeTableRequest(id=version.id)))

    def _forget(self, reservation: CreateTableVersionRequest) -> None:
        """Compaction reserves numbers in a version of its own, and then asks for the same version once more, because
        its handle does not know that one. Nobody else takes numbers here, so only the second is needed."""
        self._operations = [each for each in self._operations if each.create_table_version is not reservation]

    # --- what is seen through it ----------------------------------------------------------------

    def namespace_id(self) -> str:
        return f"transaction {id(self)} on {self._lake.namespace_id()}"

    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        return self._opened().list_namespaces(request)

    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        return self._opened().describe_namespace(request)

    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        return self._opened().namespace_exists(request)

    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        lake, asked = self._opened(), _parse(request, ListTablesRequest)
        own = [id[-1] for id in self._declared if id[:-1] == tuple(asked.id or ())]
        page, token = _own_page(own, asked)
        return ListTablesResponse(tables=page, page_token=token) if page else lake.list_tables(asked)

    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        lake, asked = self._opened(), _parse(request, TableExistsRequest)
        return TableExistsResponse() if tuple(asked.id or ()) in self._declared else lake.table_exists(asked)

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        lake, asked = self._opened(), _parse(request, DescribeTableRequest)
        declared = self._declared.get(tuple(asked.id or ()))
        if declared is None:
            return lake.describe_table(asked)
        return DescribeTableResponse(
            location=declared.location,
            table_uri=declared.location,
            storage_options=declared.storage_options,
            properties=declared.properties,
            managed_versioning=True,
        )

    def list_table_versions(self, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
        lake, asked = self._opened(), _parse(request, ListTableVersionsRequest)
        id = tuple(asked.id or ())
        newest_first = self._versions.get((id, asked.branch), [])[::-1]
        page, token = _own_page(newest_first, asked)
        if page:
            return ListTableVersionsResponse(versions=[self._show(own) for own in page], page_token=token)
        return ListTableVersionsResponse(versions=[]) if id in self._declared else lake.list_table_versions(asked)

    def describe_table_version(self, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
        lake, asked = self._opened(), _parse(request, DescribeTableVersionRequest)
        id = tuple(asked.id or ())
        for own in reversed(self._versions.get((id, asked.branch), [])):
            if asked.version in (None, own.version):
                return DescribeTableVersionResponse(version=self._show(own))
        if id in self._declared:
            raise TableVersionNotFoundError(f"table {list(id)} has no version {asked.version}")
        return lake.describe_table_version(asked)

    def _show(self, own: CreateTableVersionRequest) -> TableVersion:
        """Not under the path where it is staged: pylance would copy it from there to its final name, which
        may belong to somebody else's version before this one is history."""
        path = self._readable.path_of(own)
        if path is None:
            path = self._readable.copy(own, self.describe_table(DescribeTableRequest(id=own.id)))
        return _version(own, path)

    def _opened(self) -> Lake:
        self._require_open()
        return self._lake

    @contextmanager
    def _open_lock(self) -> Iterator[None]:
        with self._lock:
            self._require_open()
            yield


def _parse(request: Any, model: Callable[..., R]) -> R:
    """A copy of a request; pylance's own code sends plain dictionaries where people send models."""
    sent = request if isinstance(request, dict) else request.model_dump()
    return model(**{name: value for name, value in sent.items() if value is not None})


def _handed_over(operation: CommitTableOperation) -> LanceDeclare | LanceVersion:
    new = operation.declare_table
    if new is not None:
        return LanceDeclare(path=tuple(new.id or ()), location=new.location, properties=new.properties)
    own = operation.create_table_version
    return LanceVersion(
        path=tuple(own.id or ()),
        version=own.version,
        manifest_path=own.manifest_path,
        manifest_size=own.manifest_size,
        e_tag=own.e_tag,
        metadata=own.metadata,
        naming_scheme=own.naming_scheme,
        branch=own.branch,
    )


def _version(own: CreateTableVersionRequest, path: str) -> TableVersion:
    said = {"manifest_size": own.manifest_size, "e_tag": own.e_tag, "metadata": own.metadata}
    return TableVersion(version=own.version, manifest_path=path, **said)


def _own_page(own: Sequence[Item], asked: Listing) -> tuple[list[Item], str | None]:
    """What the transaction knows comes before the pages of the lake, for which `asked` is made ready at the end."""
    if asked.page_token is not None and not asked.page_token.startswith(_OWN):
        return [], None
    start = int((asked.page_token or "0").removeprefix(_OWN))
    page = list(own[start:][: asked.limit])
    if not page:
        asked.page_token = None
    return page, f"{_OWN}{start + len(page)}"
