"""The first two lines of every response: the protocol and the metadata of a table, in both formats."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from moorage.formats.delta.actions import Metadata, Protocol
from moorage.formats.sharing.capabilities import ResponseFormat
from moorage.formats.sharing.lines import to_line

CHANGE_FEED: Final = "delta.enableChangeDataFeed"


class TableFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What the sharing server adds to the metadata of a table."""

    version: int | None = None
    size: int | None = None
    num_files: int | None = None
    location: str | None = None
    access_modes: tuple[str, ...] | None = None


def protocol_line(protocol: Protocol, chosen: ResponseFormat, *, version: int | None = None) -> bytes:
    """The protocol, which the caller has reduced to what recipients need."""
    if chosen == "parquet":
        return to_line({"protocol": {"minReaderVersion": 1}})
    stated: dict[str, Any] = {"deltaProtocol": _delta_protocol(protocol)}
    return to_line({"protocol": stated if version is None else {**stated, "version": version}})


def _delta_protocol(protocol: Protocol) -> dict[str, Any]:
    stated: dict[str, Any] = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    # Version 3 and 7 require the lists, also if they are empty. Lower versions do not allow them.
    if protocol.min_reader_version >= 3:
        stated["readerFeatures"] = protocol.reader_features
    if protocol.min_writer_version >= 7:
        stated["writerFeatures"] = protocol.writer_features
    return stated


def metadata_line(metadata: Metadata, chosen: ResponseFormat, facts: TableFacts, *, history: bool) -> bytes:
    """The metadata, which the caller has reduced to what recipients need.

    `history` is whether the change data feed of the table is shared too.
    """
    added = msgspec.to_builtins(facts)
    if chosen == "delta":
        return to_line({"metaData": {"deltaMetadata": _delta_metadata(metadata), **added}})
    stated: dict[str, Any] = {
        "id": metadata.id,
        "format": {"provider": metadata.format.provider},
        "schemaString": _plain_schema(metadata.schema_string),
        "partitionColumns": metadata.partition_columns,
    }
    if metadata.name is not None:
        stated["name"] = metadata.name
    if metadata.description is not None:
        stated["description"] = metadata.description
    if history and has_change_feed(metadata):
        stated["configuration"] = {"enableChangeDataFeed": "true"}
    return to_line({"metaData": {**stated, **added}})


def has_change_feed(metadata: Metadata) -> bool:
    return metadata.configuration.get(CHANGE_FEED, "").lower() == "true"


def _delta_metadata(metadata: Metadata) -> dict[str, Any]:
    """The metaData action with all fields that readers of a log require, also if they are empty."""
    stated: dict[str, Any] = msgspec.to_builtins(metadata)
    required = {
        "format": {"provider": metadata.format.provider, "options": metadata.format.options},
        "partitionColumns": metadata.partition_columns,
        "configuration": metadata.configuration,
    }
    return {**stated, **required}


def _plain_schema(schema_string: str) -> str:
    """The schema with comments as the only column metadata: the rest is about the log and about writers."""
    return json.dumps(_without_metadata(json.loads(schema_string)), separators=(",", ":"), ensure_ascii=False)


def _without_metadata(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_metadata(each) for each in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _without_metadata(value) for key, value in node.items() if key != "metadata"}
    if "metadata" in node:
        comment = (node["metadata"] or {}).get("comment")
        plain["metadata"] = {} if comment is None else {"comment": comment}
    return plain
