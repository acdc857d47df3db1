"""The bytes of data files on the local disk, by signed URL."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from moorage.api.sharing.api import sharing
from moorage.core.errors import Forbidden, TableNotFound
from moorage.http import Answer, Call, Example, NoBody
from moorage.http.answers import Header
from moorage.usecases.ports import Ports
from moorage.usecases.sharing import shared_files
from moorage.usecases.sharing.file_urls import SIGNATURE
from moorage.usecases.sharing.shared_files import SharedFile, parse_range

routes = sharing.section(tags=("shared files",))

# The page of the catalog has the same origin: a browser must not run what a data file contains.
_HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"application/octet-stream"),
    (b"accept-ranges", b"bytes"),
    (b"content-disposition", b"attachment"),
    (b"content-security-policy", b"sandbox"),
    (b"cache-control", b"private, no-store"),
)


class FileQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The signature of the URL."""

    signature: Annotated[str, Meta(description="The signature of the token.")] = msgspec.field(
        name=SIGNATURE, default=""
    )


_EXAMPLE = Example(path={"token": "WyJyIl0.cGFydC0w"}, query={SIGNATURE: "0f5c"})


async def _open(call: Call[NoBody, FileQuery], ports: Ports) -> SharedFile:
    return await shared_files.open_file(ports, call.params["token"], call.query.signature, call.address)


@routes.get(
    "/files/{token}",
    operation="readSharedFile",
    summary="Read a data file.",
    query=FileQuery,
    content_types=("application/octet-stream",),
    errors=(Forbidden, TableNotFound),
    also={206: "Partial Content", 416: "Range Not Satisfiable"},
    public=True,
    example=Example(path=_EXAMPLE.path, query=_EXAMPLE.query, answer="PAR1…"),
)
async def read_file(call: Call[NoBody, FileQuery], ports: Ports) -> Answer:
    """Read a data file, or the part that the header Range names. The URL itself is the credential."""
    file = await _open(call, ports)
    span = parse_range(call.header("range"), file.size)
    if span is None:
        return Answer(416, b"", (*_HEADERS, (b"content-range", f"bytes */{file.size}".encode())))
    chunks = shared_files.read_chunks(ports, file, span)
    if span.is_whole:
        return Answer(200, b"", _HEADERS, stream_of=chunks, length=file.size)
    content_range = (b"content-range", f"bytes {span.start}-{span.end - 1}/{file.size}".encode())
    return Answer(206, b"", (*_HEADERS, content_range), stream_of=chunks, length=span.end - span.start)


@routes.head(
    "/files/{token}",
    operation="headSharedFile",
    summary="Get the size of a data file.",
    query=FileQuery,
    errors=(Forbidden, TableNotFound),
    public=True,
    example=_EXAMPLE,
)
async def head_file(call: Call[NoBody, FileQuery], ports: Ports) -> Answer:
    """Get the size of a data file. The URL itself is the credential."""
    file = await _open(call, ports)
    return Answer(200, b"", _HEADERS, length=file.size)
