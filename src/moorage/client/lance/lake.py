"""The Lance tables of a server, as a pylance namespace."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final, Self

import httpx
import msgspec
from lance.namespace import RestNamespace
from lance_namespace import (
    BatchCommitTablesRequest,
    BatchCommitTablesResponse,
    BatchDeleteTableVersionsRequest,
    BatchDeleteTableVersionsResponse,
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
    """pylance's REST client for a Moorage server, extended by transactions over several tables.

    Use it as `lance.write_dataset(rows, namespace_client=lake, table_id=["lake", "sales", "orders"])`, and in the
    same way with `lance.dataset`.
    """

    def __init__(self, uri: str, *, headers: Mapping[str, str] | None = None) -> None:
        """`headers`: sent with every request, for example a token."""
        named = {f"header.{name}": value for name, value in (headers or {}).items()}
        super().__init__(uri=f"{uri.rstrip('/')}/lance", delimiter=DELIMITER, **named)
        self.url = self._uri = uri
        self._headers = dict(headers or {})

    @classmethod
    def with_token(cls, uri: str, token: str | None) -> Self:
        return cls(uri, headers={"authorization": f"Bearer {token}"} if token else None)

    @cached_property
    def _transport(self) -> Transport:
        """Created on first use, which is rare. A namespace has no close method, so it is closed with this object."""
        transport = Transport(self._uri, refused=_decode_error).with_headers(self._headers)
        weakref.finalize(self, transport.close)
        return transport

    def transaction(self, *, storage_options: dict[str, str] | None = None) -> Transaction:
        """Begin a transaction. Its writes take effect together at the end of its `with` block, or not at all.

        For an object store, pass the `storage_options` that pylance gets: the transaction reads its own writes.
        """
        return Transaction(self, storage_options)

    def stage_table(self, request: DeclareTableRequest) -> DeclareTableResponse:
        """Get a location for a table that a later batch commit declares. Nothing is declared or reserved yet."""
        path = f"{API}/table{address(DELIMITER.join(request.id or ()))}/stage"
        with _as_pylance_raises():
            return DeclareTableResponse(**self._transport.note(path, dict, body={"location": request.location}))

    def batch_commit_tables(self, request: BatchCommitTablesRequest) -> BatchCommitTablesResponse:
        """Carry out all operations in one entry of the ledger, or none. An error names the table that failed."""
        body = request.model_dump(exclude_none=True)
        with _as_pylance_raises(request.operations):
            answer = self._transport.change("POST", f"{API}/table/batch-commit", dict, body=body)
        return BatchCommitTablesResponse(**answer)

    # For these, pylance passes and returns plain dictionaries, although its interface declares models.

    def create_table_version(self, request: CreateTableVersionRequest) -> CreateTableVersionResponse:
        return CreateTableVersionResponse(**super().create_table_version(_plain(request)))

    def describe_table_version(self, request: DescribeTableVersionRequest) -> DescribeTableVersionResponse:
        return DescribeTableVersionResponse(**super().describe_table_version(_plain(request)))

    def batch_delete_table_versions(self, request: BatchDeleteTableVersionsRequest) -> BatchDeleteTableVersionsResponse:
        """Delete the records of versions. Their files are deleted by `cleanup_old_versions`."""
        return BatchDeleteTableVersionsResponse(**super().batch_delete_table_versions(_plain(request)))


class _ErrorBody(msgspec.Struct):
    code: int
    error: str = ""
    detail: str | None = None


def _decode_error(response: httpx.Response) -> ClientError:
    """Decode an error of the Lance API, which has its own format and numeric codes."""
    try:
        body = msgspec.json.decode(response.content, type=_ErrorBody)
        code = ErrorCode(body.code)
    except (msgspec.DecodeError, ValueError):
        return refusal(response)
    return ClientError(
        body.error,
        code=code.name,
        advice=Advice.AFTER_REFRESH if code is ErrorCode.CONCURRENT_MODIFICATION else Advice.NEVER,
        status=response.status_code,
        details={"detail": body.detail or ""},
    )


@contextmanager
def _as_pylance_raises(operations: Sequence[CommitTableOperation] = ()) -> Iterator[None]:
    """Raise the exceptions that users of pylance catch, with the name of the table that failed."""
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
