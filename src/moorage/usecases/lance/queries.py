"""Queries of Lance tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from tempfile import NamedTemporaryFile
from typing import IO

from moorage.datasets import queries
from moorage.formats.lance.queries import Query
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.lance.work import read_table
from moorage.usecases.ports import Errand, Ports

_CHUNK_BYTES = 1024 * 1024


async def query(
    ports: Ports, errand: Errand, address: Address, asked: Query, *, branch: str | None, version: int | None
) -> AsyncIterator[bytes]:
    """The rows as an Arrow IPC file, piece by piece.

    All of them are known before the first piece leaves, so nothing can go wrong half-way; a slow reader
    keeps a file open, and no worker waiting.
    """
    spill = NamedTemporaryFile(prefix="moorage-query-")  # noqa: SIM115 - closed when its last piece has left
    try:
        small = await read_table(
            ports, errand, address, queries.query, asked, spill.name, branch=branch, version=version
        )
    except BaseException:
        spill.close()
        raise
    return _pieces(small, spill)


async def _pieces(small: bytes | None, spill: IO[bytes]) -> AsyncIterator[bytes]:
    with spill:
        if small is not None:
            yield small
            return
        while piece := await asyncio.to_thread(spill.read, _CHUNK_BYTES):
            yield piece


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
