"""Tables and views as answers: the bytes that the ledger keeps, under a tag that says which they are."""

from __future__ import annotations

import msgspec

from moorage.formats.iceberg.table_metadata import with_refs_only
from moorage.http import Answer
from moorage.http.answers import JSON
from moorage.usecases.iceberg_relations import Loaded

_encode = msgspec.json.Encoder().encode


def show(loaded: Loaded) -> Answer:
    return show_if_changed(loaded, None)


def show_if_changed(loaded: Loaded, known: str | None, *, refs_only: bool = False) -> Answer:
    """The table, or 304 if the client has this very representation of it."""
    tag = f'"{loaded.id}.{loaded.version}{".refs" if refs_only else ""}"'
    headers = ((b"etag", tag.encode()),)
    if known is not None and tag in _tags(known):
        return Answer.empty(304, headers)
    answer = loaded.metadata.answer
    if refs_only:
        shown = {"metadata-location": loaded.metadata.location, "metadata": with_refs_only(loaded.metadata.doc)}
        answer = _encode(shown)
    return Answer(200, answer, (JSON, *headers))


def _tags(header: str) -> set[str]:
    """Tags compare weakly: a proxy that compresses answers marks them with W/."""
    return {tag.strip().removeprefix("W/") for tag in header.split(",")}
