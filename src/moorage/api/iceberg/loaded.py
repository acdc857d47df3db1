"""Tables and views as answers: the bytes that the ledger keeps, under a tag that says which they are."""

from __future__ import annotations

from zlib import crc32

import msgspec

from moorage.api.iceberg.bodies import Properties
from moorage.formats.iceberg.table_metadata import with_refs_only
from moorage.http import Answer
from moorage.http.answers import JSON
from moorage.usecases.iceberg.relations import Loaded

_encode = msgspec.json.Encoder().encode

_NOTHING: Properties = {}


def show(loaded: Loaded, config: Properties = _NOTHING) -> Answer:
    return show_if_changed(loaded, None, config=config)


def show_if_changed(
    loaded: Loaded, known: str | None, *, refs_only: bool = False, config: Properties = _NOTHING
) -> Answer:
    """The table, or 304 if the client has this very representation of it."""
    settings = _encode(config) if config else b""
    file = _mark(loaded.metadata.location.encode())
    tag = f'"{loaded.id}.{loaded.version}{file}{".refs" if refs_only else ""}{_mark(settings)}"'
    headers = ((b"etag", tag.encode()),)
    if known is not None and tag in _tags(known):
        return Answer.empty(304, headers)
    answer = loaded.metadata.answer
    if refs_only:
        shown = {"metadata-location": loaded.metadata.location, "metadata": with_refs_only(loaded.metadata.doc)}
        answer = _encode(shown)
    if settings:
        answer = b"".join((answer[:-1], b',"config":', settings, b"}"))
    return Answer(200, answer, (JSON, *headers))


def _mark(told: bytes) -> str:
    """Of what may change though the version stays: the file after a restore, the settings by the operator."""
    return f".{crc32(told):08x}" if told else ""


def _tags(header: str) -> set[str]:
    """Tags compare weakly: a proxy that compresses answers marks them with W/."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
