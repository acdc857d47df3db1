"""Serves the data files of shared tables on the local disk."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

from moorage.core.errors import Forbidden, NotFound, TableNotFound, Unavailable
from moorage.core.ids import SecurableId
from moorage.core.recipients import Recipient, details_of, is_allowed_from
from moorage.core.securables import Kind
from moorage.usecases.catalog.addresses import find_by_id
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.accesses import record_access
from moorage.usecases.sharing.file_urls import open_permit, terms_of
from moorage.usecases.sharing.granted import find_table
from moorage.usecases.sharing.recipients import require_recordable
from moorage.usecases.sharing.shared_tables import SharedTable

_CHUNK: Final = 1024 * 1024
_RANGE: Final = re.compile(r"bytes=(\d{0,1000})-(\d{0,1000})")  # Python parses no longer numbers
_ENDED: Final = "the URL is no longer valid, because the share has changed; query the table again for new URLs"


class SharedFile(NamedTuple):
    """A file that a recipient may read."""

    root: str
    key: str
    size: int
    recipient: Recipient
    shared: SharedTable


async def open_file(ports: Ports, token: str, signature: str, address: str) -> SharedFile:
    """The file of a URL. Forbidden unless the URL is valid and the share still allows it."""
    require_recordable(ports)
    permit, key = open_permit(ports.page_secret, token, signature, ports.now_ms())
    recipient = await _active_recipient(ports, SecurableId(permit.recipient), address)
    try:
        shared = await find_table(ports, recipient, permit.share, permit.schema, permit.name)
    except NotFound:
        raise Forbidden(_ENDED) from None
    if shared.table.id != permit.table or terms_of(shared) != permit.terms:
        raise Forbidden(_ENDED)
    root = shared.table.doc.location or ""
    size = await ports.storage.size(root, key)
    if size is None:
        raise TableNotFound("the file does not exist any more; query the table again", name=shared.name)
    return SharedFile(root, key, size, recipient, shared)


async def _active_recipient(ports: Ports, id: SecurableId, address: str) -> Recipient:
    """The recipient that a URL was made for, if one of its tokens could still be used from this address."""
    chain = await find_by_id(ports.ledger, id)
    if not chain or chain[-1].kind is not Kind.RECIPIENT:
        raise Forbidden(_ENDED)
    securable, details = chain[-1], details_of(chain[-1])
    now_ms = ports.now_ms()
    has_token = any(token.is_activated and token.is_valid(now_ms) for token in details.tokens)
    if not (has_token or details.oidc is not None) or not is_allowed_from(details.addresses, address):
        raise Forbidden(_ENDED)
    return Recipient(
        id=securable.id,
        name=securable.name,
        shares=frozenset(details.shares),
        properties=securable.doc.properties,
        address=address,
    )


class Span(NamedTuple):
    """A range of bytes. The end is exclusive."""

    start: int
    end: int
    is_whole: bool


def parse_range(header: str | None, size: int) -> Span | None:
    """The bytes that a Range header names; None if the file has none of them.

    A header of another form, or with several ranges, is ignored, as HTTP allows: the whole file is sent.
    """
    found = None if header is None else _RANGE.fullmatch(header.strip())
    if found is None or not (found[1] or found[2]):
        return Span(0, size, is_whole=True)
    if not found[1]:
        count = int(found[2])
        return Span(max(0, size - count), size, is_whole=False) if count and size else None
    start = int(found[1])
    last = int(found[2]) if found[2] else size - 1
    if last < start and found[2]:
        return Span(0, size, is_whole=True)
    return Span(start, min(last + 1, size), is_whole=False) if start < size else None


async def read_chunks(ports: Ports, file: SharedFile, span: Span) -> AsyncIterator[bytes]:
    """The bytes of a range. Reading stops with the client, because each chunk is read when the last one is sent."""
    at = span.start
    try:
        while at < span.end:
            chunk = await ports.storage.read_range(file.root, file.key, start=at, end=min(at + _CHUNK, span.end))
            if not chunk:
                raise Unavailable(f"{file.key} was deleted or truncated while it was read")
            at += len(chunk)
            yield chunk
    finally:
        record_access(ports, file.recipient, "readSharedFile", file.shared, files=1, size=at - span.start)
