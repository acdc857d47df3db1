"""The Lance tables of a server, as pylance sees them."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import httpx
import msgspec
from lance.namespace import RestNamespace
from lance_namespace import (
    BatchCommitTablesRequest,
    BatchCommitTablesResponse,
    CommitTableOperation,
    CreateTableVersionRequest,
    CreateTableVersionResponse,
    DeclareTableRequest,
    DeclareTableResponse,
    DescribeTableVersionRequest,
    DescribeTableVersionResponse,
    ErrorCode,
)
from lance_namespace.errors import from_error_code

from moorage.client.errors import ClientError
from moorage.client.lance.transaction import Transaction
from moorage.client.transport import Transport, address, refusal
from moorage.core.errors import Advice

API: Final = "/lance/v1"
DELIMITER: Final = "$"
_FAILED_OPERATION: Final = re.compile(r"operations\[(\d+)\]")


class Lake(RestNamespace):
    """pylance's own client of a Moorage server, and what pylance does not speak: transactions over several tables.

    `lance.write_dataset(rows, namespace_client=lake, table_id=["lake", "sales", "orders"])`, and likewise
    `lance.dataset`.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri=f"{uri.rstrip('/')}/lance", delimiter=DELIMITER)
        self._uri = uri

    @cached_property
    def _transport(self) -> Transport:
        """Made when it is needed, which is rare. A namespace has no end of its own, so it is closed with the object."""
        transport = Transport(self._uri, refused=_refusal)
        weakref.finalize(self, transport.close)
        return transport

    def transaction(self, *, storage_options: dict[str, str] | None = None) -> Transaction:
        """Tables written through it change together at the end of its `with` block, or not at all.

        In an object store it needs the key that pylance is given, to show what was written so far.
        """
        return Transaction(self, storage_options)

    def stage_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Where a table may be written that a batch commit is to declare. Nothing is declared or reserved."""
        path = f"{API}/table{address(DELIMITER.join(request.id or ()))}/stage"
        with _as_pylance_raises():
            return DeclareTableResponse(**self._transport.note(path, dict, body={"location": request.location}))

    def batch_commit_tables(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        """All operations in one entry of the ledger, or none. The error names the table that it failed for."""
        body = request.model_dump(exclude_none=True)
        with _as_pylance_raises(request.operations):
            answer = self._transport.change("POST", f"{API}/table/batch-commit", dict, body=body)
        return BatchCommitTablesResponse(**answer)

    # pylance hands these two over as plain dictionaries, where the interface that it implements promises models.

    def create_table_version(self, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
        return CreateTableVersionResponse(**super().create_table_version(_plain(request)))

    def describe_table_version(self, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
        return DescribeTableVersionResponse(**super().describe_table_version(_plain(request)))


class _Refusal(msgspec.Struct):
    code: int
    error: str = ""
    detail: str | None = None


def _refusal(response: httpx.Response) -> ClientError:
    """Lance's errors have a form of their own, and numbers in place of names."""
    try:
        said = msgspec.json.decode(response.content, type=_Refusal)
        code = ErrorCode(said.code)
    except (msgspec.DecodeError, ValueError):
        return refusal(response)
    return ClientError(
        said.error,
        code=code.name,
        advice=Advice.AFTER_REFRESH if code is ErrorCode.CONCURRENT_MODIFICATION else Advice.NEVER,
        status=response.status_code,
        details={"detail": said.detail or ""},
    )


@contextmanager
def _as_pylance_raises(operations: Sequence[CommitTableOperation] = ()) -> Iterator[None]:
    """The exceptions that pylance's users catch, with the name of the table that an operation failed for."""
    try:
        yield
    except ClientError as error:
        code = ErrorCode[error.code] if error.code in ErrorCode.__members__ else ErrorCode.SERVICE_UNAVAILABLE
        failed = _FAILED_OPERATION.search(error.details.get("detail", ""))
        where = f"{_table_of(operations[int(failed[1])])}: " if failed else ""
        raise from_error_code(code, f"{where}{error.message}") from error


def _table_of(operation: CommitTableOperation) -> str:
    request = next(
        request
        for request in (
            operation.declare_table,
            operation.create_table_version,
            operation.delete_table_versions,
            operation.deregister_table,
        )
        if request is not None
    )
    return DELIMITER.join(request.id or ())


def _plain(request: Any) -> dict[str, Any]:
    return request if isinstance(request, dict) else request.model_dump(exclude_none=True)
