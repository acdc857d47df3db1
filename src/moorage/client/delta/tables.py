"""The managed Delta tables of a server: their state, new tables, and commits."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import httpx
import msgspec

from moorage.client.delta.keys import storage_for
from moorage.client.delta.locations import Storage, put_file
from moorage.client.delta.refusal import TableRefused, missing_features, require_writable
from moorage.client.errors import ClientError
from moorage.client.transport import Transport, address, refusal
from moorage.core.errors import Advice

if TYPE_CHECKING:
    from moorage.client.delta.shadows import Shadows

_API: Final = "/api/2.1/unity-catalog/delta/v1/catalogs"
_TRIES: Final = 20
"""Attempts to commit. The server serves losers of a race one by one, so each round has a winner."""
Action = dict[str, Any]
_encode = msgspec.json.Encoder().encode


class Transaction(msgspec.Struct, frozen=True):
    """The version of an application's write. A table accepts each version once, in ascending order."""

    app_id: str
    version: int


class Protocol(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    min_reader_version: int
    min_writer_version: int
    reader_features: list[str]
    writer_features: list[str]


class TableState(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A table at one version, with a page of its files."""

    table_id: str
    location: str
    version: int
    timestamp_ms: int
    protocol: Protocol
    schema_string: str
    partition_columns: list[str]
    configuration: dict[str, str]
    metadata: dict[str, Any]
    """The other fields of the log's `metaData` action."""
    domains: list[str]
    last_transaction: int | None
    file_count: int
    files: list[Action]

    @property
    def fields(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.schema_string)["fields"]
        return found


class NewTable(msgspec.Struct, frozen=True, kw_only=True):
    """A reserved location for a table that its first commit creates."""

    name: str
    table_id: str
    location: str
    protocol: dict[str, Any]
    properties: dict[str, str]


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    version: int
    is_replay: bool = False
    """The transaction was committed before, so this write added nothing."""


class ExpectedVersionMoved(Exception):
    """Another writer changed the table after the version that the rows were computed from."""


class _ErrorModel(msgspec.Struct):
    message: str
    type: str


class _ErrorBody(msgspec.Struct):
    error: _ErrorModel


class DeltaTables:
    """The tables of one server, by full name: `lake.sea.boats`."""

    def __init__(self, url: str, *, token: str | None = None, storage: Storage | None = None) -> None:
        self._transport = Transport(url, refused=_decode_error, token=token)
        self._storage = storage or {}

    @property
    def shadows(self) -> Shadows:
        """For changes of rows by Delta's own statements."""
        from moorage.client.delta.shadows import Shadows

        return Shadows(self._transport)

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def storage_for(self, table_id: str, location: str, *, write: bool = True) -> Storage:
        """How to reach the files of a table: as the caller said, with its own keys, or with keys of the server."""
        return self._storage or storage_for(self._transport, table_id, location, write=write)

    def state(
        self,
        name: str,
        *,
        version: int | None = None,
        timestamp_ms: int | None = None,
        app_id: str | None = None,
        files: int = 10_000,
        offset: int = 0,
    ) -> TableState:
        """The table at a version or time, by default the newest, with up to 10,000 of its files."""
        query = {"version": version, "timestamp_ms": timestamp_ms, "app_id": app_id, "limit": files, "offset": offset}
        given = {key: str(value) for key, value in query.items() if value is not None}
        return self._transport.read(f"{table_path(name)}/files", TableState, given)

    def find(self, name: str) -> TableState | None:
        """The table without its files, or None if it does not exist."""
        try:
            return self.state(name, files=0)
        except ClientError as error:
            if error.code == "NoSuchTableException":
                return None
            raise

    def files(self, name: str, state: TableState) -> Iterator[Action]:
        """All files of the version that `state` has."""
        offset = 0
        while offset < state.file_count:
            page = self.state(name, version=state.version, offset=offset).files
            yield from page
            offset += len(page)

    # --- new tables --------------------------------------------------------------------------------------------

    def stage(self, name: str) -> NewTable:
        """Reserve a location. Nothing exists under the name until `create`."""
        catalog, schema, table = split_name(name)
        staged = self._transport.note(f"{_schema(catalog, schema)}/staging-tables", dict, body={"name": table})
        return NewTable(
            name=name,
            table_id=staged["table-id"],
            location=staged["location"],
            protocol=staged["required-protocol"],
            # Clients delete expired log files after each checkpoint, even in managed tables. This property stops them.
            properties={**staged["required-properties"], "delta.enableExpiredLogCleanup": "false"},
        )

    def create(
        self,
        new: NewTable,
        schema: dict[str, Any],
        adds: Sequence[Action] = (),
        *,
        partition_columns: Sequence[str] = (),
        properties: dict[str, str] | None = None,
        comment: str | None = None,
        transaction: Transaction | None = None,
    ) -> Committed:
        """Create the table with its first rows. The schema is a Spark struct type as JSON."""
        catalog, namespace, table = split_name(new.name)
        at_ms, configuration = _now_ms(), {**(properties or {}), **new.properties}
        metadata = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": list(partition_columns),
            "configuration": configuration,
            "createdTime": at_ms,
            **({} if comment is None else {"description": comment}),
        }
        wire_protocol = {**new.protocol}
        for key in ("reader-features", "writer-features"):
            wire_protocol[key] = [*new.protocol[key], *missing_features(schema, new.protocol[key])]
        protocol = {_camel(key): value for key, value in wire_protocol.items()}
        actions = [
            _commit_info(at_ms, "CREATE TABLE AS SELECT", blind=True),
            {"protocol": protocol},
            {"metaData": metadata},
            *_transaction_actions(transaction, at_ms),
            *({"add": add} for add in adds),
        ]
        put_file(
            new.location, f"_delta_log/{0:020}.json", _lines(actions), self.storage_for(new.table_id, new.location)
        )
        body = {
            "name": table,
            "location": new.location,
            "table-type": "MANAGED",
            "comment": comment,
            "columns": _wire_type(schema),
            "partition-columns": list(partition_columns),
            "protocol": wire_protocol,
            "properties": configuration,
            "last-commit-timestamp-ms": at_ms,
        }
        self._transport.change("POST", f"{_schema(catalog, namespace)}/tables", dict, body=body)
        return Committed(version=0)

    # --- commits -----------------------------------------------------------------------------------------------

    def commit(
        self,
        name: str,
        table_id: str,
        schema_string: str,
        adds: Sequence[Action],
        *,
        overwrite: bool = False,
        transaction: Transaction | None = None,
        new_schema: dict[str, Any] | None = None,
        expected_version: int | None = None,
    ) -> Committed:
        """Add files, in place of all files with `overwrite`. A conflict is resolved by a commit on the new head.

        The files were written for `schema_string`. If the table has another schema by now, the commit is refused.
        With `expected_version` it is refused, as ExpectedVersionMoved, if the table has a later version.
        """
        app_id = None if transaction is None else transaction.app_id
        for _ in range(_TRIES):
            state = self.state(name, app_id=app_id, files=0)
            if transaction is not None and _is_committed(state, transaction):
                return Committed(version=state.version, is_replay=True)
            if expected_version not in (None, state.version):
                raise ExpectedVersionMoved(
                    f"'{name}' is at version {state.version}, not at {expected_version}; read again"
                )
            _require_same(state, table_id, schema_string, name)
            require_writable(state.protocol.writer_features, state.configuration, state.fields)
            removes = list(self.files(name, state)) if overwrite else []
            if removes and state.configuration.get("delta.appendOnly") == "true":
                raise TableRefused(f"'{name}' has delta.appendOnly=true, so its rows cannot be overwritten")
            try:
                self._propose(name, state, adds, removes, transaction, new_schema, overwrite=overwrite)
            except ClientError as error:
                if error.code != "CommitVersionConflictException":
                    raise
                continue
            return Committed(version=state.version + 1)
        raise ClientError(
            f"'{name}' changed during each of {_TRIES} attempts to commit; try again",
            code="CONFLICT",
            advice=Advice.AFTER_REFRESH,
        )

    def _propose(
        self,
        name: str,
        state: TableState,
        adds: Sequence[Action],
        removes: Sequence[Action],
        transaction: Transaction | None,
        new_schema: dict[str, Any] | None,
        *,
        overwrite: bool,
    ) -> None:
        # Timestamps of commits increase, also when two of them are made within a millisecond.
        at_ms = max(_now_ms(), state.timestamp_ms + 1)
        mode = "Overwrite" if overwrite else "Append"
        actions = [
            _commit_info(at_ms, "WRITE", blind=not overwrite, parameters={"mode": mode}),
            *([] if new_schema is None else _schema_actions(state, new_schema)),
            *_transaction_actions(transaction, at_ms),
            *({"remove": _remove(file, at_ms)} for file in removes),
            *({"add": add} for add in adds),
        ]
        version, data = state.version + 1, _lines(actions)
        file_name = f"{version:020}.{uuid.uuid4()}.json"
        storage = self.storage_for(state.table_id, state.location)
        put_file(state.location, f"_delta_log/_staged_commits/{file_name}", data, storage)
        staged = {
            "version": version,
            "timestamp": at_ms,
            "file-name": file_name,
            "file-size": len(data),
            "file-modification-timestamp": at_ms,
        }
        body = {
            "requirements": [{"type": "assert-table-uuid", "uuid": state.table_id}],
            "updates": [{"action": "add-commit", "commit": staged}],
        }
        self._transport.change("POST", table_path(name), dict, body=body)


def split_name(name: str) -> tuple[str, str, str]:
    """The catalog, the schema and the table of a full name."""
    parts = name.split(".")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"expected a table name CATALOG.SCHEMA.TABLE, not {name!r}")
    return parts[0], parts[1], parts[2]


def _schema(catalog: str, schema: str) -> str:
    return f"{_API}{address(catalog)}/schemas{address(schema)}"


def table_path(name: str) -> str:
    """The path of a table in the Delta API."""
    catalog, schema, table = split_name(name)
    return f"{_schema(catalog, schema)}/tables{address(table)}"


def _is_committed(state: TableState, transaction: Transaction) -> bool:
    return state.last_transaction is not None and state.last_transaction >= transaction.version


def _require_same(state: TableState, table_id: str, schema_string: str, name: str) -> None:
    if state.table_id != table_id:
        raise TableRefused(f"'{name}' was dropped and created again while rows were written for it; write again")
    if json.loads(state.schema_string) != json.loads(schema_string):
        raise TableRefused(f"the columns of '{name}' changed while rows were written for it; write again")


def _schema_actions(state: TableState, schema: dict[str, Any]) -> list[Action]:
    protocol, actions = state.protocol, list[Action]()
    if missing_features(schema, protocol.writer_features):
        upgraded: Action = {
            "minReaderVersion": protocol.min_reader_version,
            "minWriterVersion": protocol.min_writer_version,
        }
        for key, features in (
            ("readerFeatures", protocol.reader_features),
            ("writerFeatures", protocol.writer_features),
        ):
            upgraded[key] = [*features, *missing_features(schema, features)]
        actions.append({"protocol": upgraded})
    return [*actions, {"metaData": _metadata(state, schema)}]


def _metadata(state: TableState, schema: dict[str, Any]) -> Action:
    return {
        "format": {"provider": "parquet", "options": {}},
        **state.metadata,
        "schemaString": json.dumps(schema),
        "partitionColumns": state.partition_columns,
        "configuration": state.configuration,
    }


def _remove(file: Action, at_ms: int) -> Action:
    kept = ("path", "partitionValues", "size", "deletionVector", "baseRowId", "defaultRowCommitVersion", "tags")
    known = {key: file[key] for key in kept if file.get(key) is not None}
    return {**known, "deletionTimestamp": at_ms, "dataChange": True, "extendedFileMetadata": True}


def _transaction_actions(transaction: Transaction | None, at_ms: int) -> list[Action]:
    if transaction is None:
        return []
    return [{"txn": {"appId": transaction.app_id, "version": transaction.version, "lastUpdated": at_ms}}]


def _commit_info(at_ms: int, operation: str, *, blind: bool, parameters: dict[str, str] | None = None) -> Action:
    info = {"inCommitTimestamp": at_ms, "timestamp": at_ms, "operation": operation, "txnId": str(uuid.uuid4())}
    return {
        "commitInfo": {
            **info,
            "operationParameters": parameters or {},
            "engineInfo": "moorage",
            "isBlindAppend": blind,
        }
    }


def _lines(actions: Sequence[Action]) -> bytes:
    return b"".join(_encode(action) + b"\n" for action in actions)


_WIRE_KEYS: Final = {
    "elementType": "element-type",
    "containsNull": "contains-null",
    "keyType": "key-type",
    "valueType": "value-type",
    "valueContainsNull": "value-contains-null",
}


def _wire_type(document: Any) -> Any:
    """A type as `/delta/v1` spells it. Keys of metadata are the user's and stay."""
    if isinstance(document, list):
        return [_wire_type(item) for item in document]
    if not isinstance(document, dict):
        return document
    return {
        _WIRE_KEYS.get(key, key): value if key == "metadata" else _wire_type(value) for key, value in document.items()
    }


def _camel(name: str) -> str:
    first, *others = name.split("-")
    return first + "".join(map(str.capitalize, others))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _decode_error(response: httpx.Response) -> ClientError:
    """Decode an error of the Delta API. Its type says what went wrong; its status says whether to retry."""
    try:
        found = msgspec.json.decode(response.content, type=_ErrorBody).error
    except msgspec.DecodeError:
        return refusal(response)
    is_transient = response.status_code in (429, 503)
    code = "OUTCOME_UNKNOWN" if found.type == "CommitStateUnknownException" else found.type
    advice = Advice.SAME_REQUEST if is_transient else Advice.NEVER
    return ClientError(found.message, code=code, advice=advice, status=response.status_code)
