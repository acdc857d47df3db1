"""Transactions over several Lance tables: pylance writes as usual, and one batch commit applies all writes."""

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

from moorage.client.lance.cleanup_guard import refuse_cleanup_in
from moorage.client.lance.readable import ReadableManifests
from moorage.client.operations import LanceDeclare, LanceVersion

if TYPE_CHECKING:
    from moorage.client.lance.lake import Lake

R = TypeVar("R")
Item = TypeVar("Item")
TableId = tuple[str, ...]
Listing: TypeAlias = ListTablesRequest | ListTableVersionsRequest

_OWN: Final = "transaction:"
"""The prefix of page tokens for the transaction's own items. They come before the pages of the lake."""
_AUTO_CLEANUP: Final = re.compile(rb"lance\.auto_cleanup\.interval")
"""The table setting with which Lance deletes old versions after every n-th commit."""
_RESERVES_FRAGMENTS: Final = re.compile(rb"\x12\$[0-9a-f-]{36}\xda\x06")
"""How a manifest encodes a Lance transaction that only reserves fragment ids: its id and the operation."""


class Transaction(LanceNamespace):
    """The lake as it will be after the transaction. Pass it to pylance in place of the lake.

    Tables and versions that are created through it are immediately visible through it, and not to other clients.
    At the end of the `with` block, one batch commit applies all of them or none. An exception leaves the lake
    unchanged. Operations that could not be rolled back are refused. Datasets that were opened through a
    transaction cannot be used after it.
    """

    def __init__(self, lake: Lake, storage_options: dict[str, str] | None = None) -> None:
        refuse_cleanup_in(Transaction)
        self._lake = lake
        self._lock = threading.Lock()
        self._operations: list[CommitTableOperation] = []
        self._declared: dict[TableId, DeclareTableResponse] = {}
        self._versions: dict[tuple[TableId, str | None], list[CreateTableVersionRequest]] = {}
        self._readable = ReadableManifests(storage_options)
        self._end: str | None = None
        self.transaction_id: str | None = None
        """The server's id of the transaction, once it is committed."""

    # --- commit and rollback -------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._end is None:
            self.commit() if error is None else self.rollback()

    def commit(self) -> None:
        """Apply all writes in one entry of the ledger, or none."""
        operations = self._close("not committed")
        try:
            if operations:
                answer = self._lake.batch_commit_tables(BatchCommitTablesRequest(operations=operations))
                self.transaction_id = answer.transaction_id
            self._end = "committed"
        finally:
            self._readable.remove()

    def hand_over(self) -> list[LanceDeclare | LanceVersion]:
        """End the transaction and return its writes, for use in `Client.transact` together with other formats."""
        operations = self._close("handed over")
        self._readable.remove()
        return [_to_operation(each) for each in operations]

    def rollback(self) -> None:
        """Discard all writes. Files that were written stay in storage and belong to no version."""
        self._close("rolled back")
        self._readable.remove()

    def _close(self, end: str) -> list[CommitTableOperation]:
        with self._lock:
            self._require_open()
            self._end = end
        return self._operations

    def _require_open(self) -> None:
        if self._end is not None:
            raise InvalidInputError(f"the transaction was {self._end}; begin a new one and reopen its tables")

    # --- writes, which are held until the commit -----------------------------------------------

    def declare_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        sent = _parse(request, DeclareTableRequest)
        id = tuple(sent.id or ())
        staged = self._lake.stage_table(sent)
        with self._open_lock():
            if id in self._declared:
                raise TableAlreadyExistsError(f"table {list(id)} is already declared in this transaction")
            sent.location = staged.location
            self._operations.append(CommitTableOperation(declare_table=sent))
            self._declared[id] = staged
        return staged

    def create_table_version(self, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
        sent = _parse(request, CreateTableVersionRequest)
        with self._open_lock():
            line = self._versions.setdefault((tuple(sent.id or ()), sent.branch), [])
            if line and line[-1].version == sent.version and self._manifest_has(line[-1], _RESERVES_FRAGMENTS):
                self._drop_reservation(line.pop())
            if any(own.version == sent.version for own in line):
                # The dataset handle is stale. To rebase it, pylance would need this version under its final name.
                raise ConcurrentModificationError(f"the transaction already has version {sent.version} of {sent.id}")
            if line:
                self._require_no_auto_cleanup(sent)
            line.append(sent)
            self._operations.append(CommitTableOperation(create_table_version=sent))
        return CreateTableVersionResponse(version=_version(sent, sent.manifest_path))

    def _require_no_auto_cleanup(self, sent: CreateTableVersionRequest) -> None:
        """Refuse a version after which pylance would run its auto cleanup, unless it builds on a version of the lake.

        The cleanup lists `_versions` to find the files in use, and the transaction's own versions are not there. It
        would delete the newest version of the lake, and the files that this version shares with the transaction.
        """
        if self._manifest_has(sent, _AUTO_CLEANUP):
            raise UnsupportedOperationError(
                f"auto cleanup is enabled for {sent.id}: write to it only once in a transaction, or call "
                "`disable_auto_cleanup` first"
            )

    def _manifest_has(self, version: CreateTableVersionRequest, pattern: re.Pattern[bytes]) -> bool:
        return self._readable.mentions(pattern, version, self.describe_table(DescribeTableRequest(id=version.id)))

    def _drop_reservation(self, reservation: CreateTableVersionRequest) -> None:
        """Drop a version that only reserves fragment ids. Compaction creates it and then, with a stale handle, creates
        the same version again. Nothing else allocates ids in this transaction, so only the second is needed."""
        self._operations = [each for each in self._operations if each.create_table_version is not reservation]

    # --- reads, which include the transaction's own writes -------------------------------------

    def namespace_id(self) -> str:
        return f"transaction {id(self)} on {self._lake.namespace_id()}"

    def list_namespaces(self, request: ListNamespacesRequest) -> ListNamespacesResponse:
        return self._opened().list_namespaces(request)

    def describe_namespace(self, request: DescribeNamespaceRequest) -> DescribeNamespaceResponse:
        return self._opened().describe_namespace(request)

    def namespace_exists(self, request: NamespaceExistsRequest) -> NamespaceExistsResponse:
        return self._opened().namespace_exists(request)

    def list_tables(self, request: ListTablesRequest) -> ListTablesResponse:
        lake, parsed = self._opened(), _parse(request, ListTablesRequest)
        own = [id[-1] for id in self._declared if id[:-1] == tuple(parsed.id or ())]
        page, token = _own_page(own, parsed)
        return ListTablesResponse(tables=page, page_token=token) if page else lake.list_tables(parsed)

    def table_exists(self, request: TableExistsRequest) -> TableExistsResponse:
        lake, parsed = self._opened(), _parse(request, TableExistsRequest)
        return TableExistsResponse() if tuple(parsed.id or ()) in self._declared else lake.table_exists(parsed)

    def describe_table(self, request: DescribeTableRequest) -> DescribeTableResponse:
        lake, parsed = self._opened(), _parse(request, DescribeTableRequest)
        declared = self._declared.get(tuple(parsed.id or ()))
        if declared is None:
            return lake.describe_table(parsed)
        return DescribeTableResponse(
            location=declared.location,
            table_uri=declared.location,
            storage_options=declared.storage_options,
            properties=declared.properties,
            managed_versioning=True,
        )

    def list_table_versions(self, request: ListTableVersionsRequest) -> ListTableVersionsResponse:
        lake, parsed = self._opened(), _parse(request, ListTableVersionsRequest)
        id = tuple(parsed.id or ())
        newest_first = self._versions.get((id, parsed.branch), [])[::-1]
        page, token = _own_page(newest_first, parsed)
        if page:
            return ListTableVersionsResponse(versions=[self._show(own) for own in page], page_token=token)
        return ListTableVersionsResponse(versions=[]) if id in self._declared else lake.list_table_versions(parsed)

    def describe_table_version(self, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
        lake, parsed = self._opened(), _parse(request, DescribeTableVersionRequest)
        id = tuple(parsed.id or ())
        for own in reversed(self._versions.get((id, parsed.branch), [])):
            if parsed.version in (None, own.version):
                return DescribeTableVersionResponse(version=self._show(own))
        if id in self._declared:
            raise TableVersionNotFoundError(f"table {list(id)} has no version {parsed.version}")
        return lake.describe_table_version(parsed)

    def _show(self, own: CreateTableVersionRequest) -> TableVersion:
        """A version under the path of a readable copy. pylance would copy a staged manifest to its final name, which
        another writer may use before this transaction commits."""
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
    """Copy a request. pylance itself sends plain dictionaries, users send models."""
    sent = request if isinstance(request, dict) else request.model_dump()
    return model(**{name: value for name, value in sent.items() if value is not None})


def _to_operation(operation: CommitTableOperation) -> LanceDeclare | LanceVersion:
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
    optional = {"manifest_size": own.manifest_size, "e_tag": own.e_tag, "metadata": own.metadata}
    return TableVersion(version=own.version, manifest_path=path, **optional)


def _own_page(own: Sequence[Item], parsed: Listing) -> tuple[list[Item], str | None]:
    """A page of the transaction's own items. They come before the lake's, for which the page token is then reset."""
    if parsed.page_token is not None and not parsed.page_token.startswith(_OWN):
        return [], None
    start = int((parsed.page_token or "0").removeprefix(_OWN))
    page = list(own[start:][: parsed.limit])
    if not page:
        parsed.page_token = None
    return page, f"{_OWN}{start + len(page)}"
