"""Responses that contain a table or view: the bytes that the ledger stores, with an ETag that identifies them."""

from __future__ import annotations

from zlib import crc32

import msgspec

from moorage.api.iceberg.bodies import Properties
from moorage.formats.iceberg.table_metadata import with_refs_only
from moorage.http import Answer
from moorage.http.answers import JSON
from moorage.usecases.iceberg.relations import Loaded

_encode = msgspec.json.Encoder().encode

_NO_CONFIG: Properties = {}


def to_answer(loaded: Loaded, config: Properties = _NO_CONFIG) -> Answer:
    return to_answer_if_changed(loaded, None, config=config)


def to_answer_if_changed(
    loaded: Loaded, known: str | None, *, refs_only: bool = False, config: Properties = _NO_CONFIG
) -> Answer:
    """The table, or 304 if the client already has this representation of it."""
    settings = _encode(config) if config else b""
    file = _checksum_suffix(loaded.metadata.location.encode())
    tag = f'"{loaded.id}.{loaded.version}{file}{".refs" if refs_only else ""}{_checksum_suffix(settings)}"'
    headers = ((b"etag", tag.encode()),)
    if known is not None and tag in _tags(known):
        return Answer.empty(304, headers)
    answer = loaded.metadata.answer
    if refs_only:
        body = {"metadata-location": loaded.metadata.location, "metadata": with_refs_only(loaded.metadata.doc)}
        answer = _encode(body)
    if settings:
        answer = b"".join((answer[:-1], b',"config":', settings, b"}"))
    return Answer(200, answer, (JSON, *headers))


def _checksum_suffix(data: bytes) -> str:
    """Covers what may change without a new version: the file after a restore, and the operator's settings."""
    return f".{crc32(data):08x}" if data else ""


def _tags(header: str) -> set[str]:
    """The tags of a header, for weak comparison: a proxy that compresses responses marks their tags with W/."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
