"""Responses of lines, sent while they are made."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import cast

from moorage.api.sharing.api import NDJSON, WIRE
from moorage.core.errors import MoorageError
from moorage.formats.sharing import capabilities as header
from moorage.formats.sharing.capabilities import response_capabilities
from moorage.formats.sharing.lines import EndStreamAction, end_stream_line
from moorage.http import Answer
from moorage.http.answers import Header
from moorage.http.errors import wire_of
from moorage.usecases.sharing.queries import Lines, ReadCount

_log = logging.getLogger(__name__)
_CAPABILITIES = header.HEADER.encode()


def table_headers(version: int) -> tuple[Header, ...]:
    return ((b"delta-table-version", str(version).encode()), (b"cache-control", b"no-store"))


async def lines_answer(
    lines: Lines, record: Callable[[ReadCount], None], *, announces_end: bool, more: tuple[Header, ...] = ()
) -> Answer:
    """Send lines as they are made. The first chunk is made before the status is sent, so that most errors have one.

    `record` is called with what was sent, also if the client stops to read. `announces_end`: whether the client asked
    for an endStreamAction. Pages and refresh tokens have one for every client, but only these find it in the header.
    """
    first = await anext(lines.chunks)
    headers = (
        (b"content-type", NDJSON.encode()),
        (_CAPABILITIES, response_capabilities(lines.chosen, end_stream=announces_end).encode()),
        *table_headers(lines.version),
        *more,
    )
    return Answer(200, b"", headers, stream_of=_chunks(first, lines, record))


async def _chunks(first: bytes, lines: Lines, record: Callable[[ReadCount], None]) -> AsyncIterator[bytes]:
    """The chunks of a response. A failure becomes the last line if the client asked for one, else the stream is cut."""
    async with aclosing(cast("AsyncGenerator[bytes, None]", lines.chunks)) as chunks:
        try:
            yield first
            async for chunk in chunks:
                yield chunk
        except Exception as error:
            if not lines.ends_stream:
                raise
            _log.error("a response of lines failed", exc_info=error)
            yield end_stream_line(_failure(error))
        finally:
            record(lines.count)


def _failure(error: Exception) -> EndStreamAction:
    if isinstance(error, MoorageError):
        return EndStreamAction(error_message=error.message, http_status_error_code=wire_of(WIRE, type(error)).status)
    return EndStreamAction(error_message="internal error; retry the request", http_status_error_code=500)
