"""Queries of Lance tables."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from tempfile import NamedTemporaryFile

from moorage.datasets import queries
from moorage.formats.lance.queries import Query
from moorage.usecases.addresses import Address
from moorage.usecases.lance_work import read_table
from moorage.usecases.ports import Errand, Ports

_CHUNK_BYTES = 1024 * 1024


async def query(
    ports: Ports, errand: Errand, address: Address, asked: Query, *, branch: str | None, version: int | None
) -> AsyncIterator[bytes]:
    """The rows as an Arrow IPC file, piece by piece.

    All of them are known before the first piece leaves, so nothing can go wrong half-way; a slow reader
    keeps a file open, and no worker waiting.
    """
    with NamedTemporaryFile(prefix="moorage-query-") as spill:
        small = await read_table(
            ports, errand, address, queries.query, asked, spill.name, branch=branch, version=version
        )
        # Opened again, because its name goes now and its bytes stay while it is open.
        return _pieces(small, None if small is not None else os.dup(spill.fileno()))


async def _pieces(small: bytes | None, large: int | None) -> AsyncIterator[bytes]:
    if large is None:
        yield small or b""
        return
    try:
        position = 0
        while piece := await asyncio.to_thread(os.pread, large, _CHUNK_BYTES, position):
            position += len(piece)
            yield piece
    finally:
        os.close(large)


async def explain(
    ports: Ports,
    errand: Errand,
    address: Address,
    asked: Query,
    *,
    branch: str | None,
    version: int | None,
    verbose: bool,
) -> str:
    """How Lance would find the rows."""
    return await read_table(
        ports, errand, address, queries.explain, asked, branch=branch, version=version, verbose=verbose
    )


async def analyze(
    ports: Ports, errand: Errand, address: Address, asked: Query, *, branch: str | None, version: int | None
) -> str:
    """How Lance found the rows, and what it cost."""
    return await read_table(ports, errand, address, queries.analyze, asked, branch=branch, version=version)
