"""Responses that contain a table or view: the bytes that the ledger stores, with an ETag that identifies them."""

from __future__ import annotations

from zlib import crc32

import msgspec

from moorage.api.iceberg.file_access import NOTHING, FileAccess
from moorage.formats.iceberg.table_metadata import with_refs_only
from moorage.http import Answer
from moorage.http.answers import JSON
from moorage.usecases.iceberg.relations import Loaded

_encode = msgspec.json.Encoder().encode


def to_answer(loaded: Loaded, access: FileAccess = NOTHING) -> Answer:
    return to_answer_if_changed(loaded, None, access=access)


def to_answer_if_changed(
    loaded: Loaded, known: str | None, *, refs_only: bool = False, access: FileAccess = NOTHING
) -> Answer:
    """The table, or 304 if the client already has this representation of it.

    A client that has the credentials of an older response gets new ones as soon as the server vends another key.
    """
    file = _checksum_suffix(loaded.metadata.location.encode())
    tag = f'"{loaded.id}.{loaded.version}{file}{".refs" if refs_only else ""}{_checksum_suffix(access.fingerprint)}"'
    headers = ((b"etag", tag.encode()), *access.headers)
    if known is not None and tag in _tags(known):
        return Answer.empty(304, headers)
    answer = loaded.metadata.answer
    if refs_only:
        body = {"metadata-location": loaded.metadata.location, "metadata": with_refs_only(loaded.metadata.doc)}
        answer = _encode(body)
    if fields := access.fields():
        answer = b"".join((answer[:-1], b",", _encode(fields)[1:]))
    return Answer(200, answer, (JSON, *headers))


def _checksum_suffix(data: bytes) -> str:
    """Covers what may change without a new version: the file after a restore, the settings, and the vended key."""
    return f".{crc32(data):08x}" if data else ""


def _tags(header: str) -> set[str]:
    """The tags of a header, for weak comparison: a proxy that compresses responses marks their tags with W/."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
