"""The shadow log: a small Delta table inside the folder of a catalog-managed one.

Delta refuses to OPTIMIZE a catalog-managed table, and rewriting files by hand would lose features of the table. So the
catalog writes a log that names some files of the table by their absolute paths, without the feature `catalogManaged`.
Spark optimises that table, and `offers` translates its commit into a commit of the real table. No data file moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec
from msgspec.structs import replace

from moorage.core.locations import normalize_location
from moorage.formats.delta.actions import DomainMetadata, Metadata, Protocol, SetTransaction
from moorage.formats.delta.deletion_vectors import vector_path
from moorage.formats.delta.file_actions import AddFile, DeletionVector

CATALOG_MANAGED: Final = "catalogManaged"
_LEFT_OUT: Final = (
    "io.unitycatalog.",
    "delta.universalFormat.",
    "delta.autoOptimize.",
    "delta.compatibility.",
    # They name versions of the real log, which are not versions of the shadow.
    "delta.inCommitTimestampEnablement",
)
_NO_CLEAN_UP: Final = "delta.enableExpiredLogCleanup"
_TXN_ID: Final = "shadow"
_HISTOGRAM_BINS: Final = 10
_URI_SAFE: Final = "/!$&'()*+,;=:@-._~"
_SCHEMES: Final = {"s3": "s3a"}
"""Spark's name of a store, where it differs from the catalog's."""

encode = msgspec.json.Encoder().encode


class TableSide(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the real table at the version that a shadow is made from, without its files."""

    timestamp_ms: int
    protocol: Protocol
    metadata: Metadata
    domains: Mapping[str, DomainMetadata] = {}
    transactions: Mapping[str, SetTransaction] = {}


def hadoop_location(location: str) -> str:
    """A location as Hadoop prints it: `file:/x/`, `s3a://bucket/x/`. With `file:///x/`, DELETE would fail."""
    scheme, _, rest = normalize_location(location).partition("://")
    # A location on local disk is a URI with escapes, as the catalog gives it to clients.
    path = quote(unquote(rest), safe=_URI_SAFE)
    return f"file:{path}" if scheme == "file" else f"{_SCHEMES.get(scheme, scheme)}://{path}"


def absolute(path: str, root: str) -> str:
    """A path of the log, below the Hadoop location `root`, in the same form."""
    if path.startswith("/"):
        return f"file:{path}"
    if "://" in path or path.startswith("file:/"):
        scheme, _, rest = path.partition(":")
        return f"file:/{rest.lstrip('/')}" if scheme == "file" else f"{_SCHEMES.get(scheme, scheme)}:{rest}"
    return root + path


def absolute_vector(vector: DeletionVector, root: str) -> DeletionVector:
    """The vector with its absolute path. A relative one would be looked up in the folder of the shadow."""
    path = vector_path(vector)
    if path is None:
        return vector
    # The path of a `p` vector is a URI already. The name in a `u` vector needs no escapes, but its folder may.
    escaped = path if vector.storage_type == "p" else quote(path, safe=_URI_SAFE)
    return replace(vector, storage_type="p", path_or_inline_dv=absolute(escaped, root))


def shadow_log(table: TableSide, files: Iterable[AddFile], root: str) -> bytes:
    """The first commit of a shadow table with these files. `root` is the Hadoop location of the real table."""
    info = {
        "timestamp": table.timestamp_ms,
        "inCommitTimestamp": table.timestamp_ms,
        "operation": "CREATE TABLE",
        "operationParameters": {},
        "txnId": _TXN_ID,
    }
    actions: list[dict[str, Any]] = [
        {"commitInfo": info},
        {"protocol": shadow_protocol(table.protocol)},
        {"metaData": shadow_metadata(table.metadata)},
        *({"domainMetadata": domain} for domain in table.domains.values()),
        *({"txn": txn} for txn in table.transactions.values()),
        *({"add": _shadow_file(file, root)} for file in files),
    ]
    return b"".join(encode(action) + b"\n" for action in actions)


def empty_checksum(table: TableSide) -> bytes:
    """Delta's version checksum for a shadow without files.

    Without it, Delta replays the log before an append and after it, in five jobs of Spark that take half a second. With
    row tracking, it still runs three of them.
    """
    checksum = {
        "txnId": _TXN_ID,
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numDeletedRecordsOpt": 0,
        "numDeletionVectorsOpt": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": table.timestamp_ms,
        "setTransactions": list(table.transactions.values()),
        "domainMetadata": list(table.domains.values()),
        "metadata": shadow_metadata(table.metadata),
        "protocol": shadow_protocol(table.protocol),
        "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [0] * _HISTOGRAM_BINS},
        "allFiles": [],
    }
    return encode(checksum)


def shadow_protocol(protocol: Protocol) -> dict[str, Any]:
    """The protocol without the feature that forbids OPTIMIZE."""
    return {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": [feature for feature in protocol.reader_features if feature != CATALOG_MANAGED],
        "writerFeatures": [feature for feature in protocol.writer_features if feature != CATALOG_MANAGED],
    }


def shadow_metadata(metadata: Metadata) -> dict[str, Any]:
    """The metadata without the properties that start work of the catalog or of other engines.

    Constraints, generated columns, column mapping, row tracking and the rest stay, so that Delta keeps them.
    """
    return metadata_action(metadata, shadow_configuration(metadata.configuration))


def shadow_configuration(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a shadow."""
    kept = {key: value for key, value in configuration.items() if not key.startswith(_LEFT_OUT)}
    return {**kept, _NO_CLEAN_UP: "false"}


def metadata_action(metadata: Metadata, configuration: Mapping[str, str]) -> dict[str, Any]:
    """A metaData action with every field that readers expect."""
    return {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.format.provider, "options": metadata.format.options},
        "schemaString": metadata.schema_string,
        "partitionColumns": metadata.partition_columns,
        "configuration": configuration,
        "createdTime": metadata.created_time,
    }


def _shadow_file(file: AddFile, root: str) -> AddFile:
    vector = None if file.deletion_vector is None else absolute_vector(file.deletion_vector, root)
    return replace(file, path=absolute(file.path, root), data_change=False, deletion_vector=vector)
