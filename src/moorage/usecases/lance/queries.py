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
    ports: Ports, errand: Errand, address: Address, request: Query, *, branch: str | None, version: int | None
) -> AsyncIterator[bytes]:
    """The rows as an Arrow IPC file, in chunks.

    The query is complete before the first chunk is sent, so the response cannot fail half-way. A slow reader keeps a
    temporary file open, not a worker process busy.
    """
    spill = NamedTemporaryFile(prefix="moorage-query-")  # noqa: SIM115 - closed after the last chunk
    try:
        small = await read_table(
            ports, errand, address, queries.query, request, spill.name, branch=branch, version=version
        )
    except BaseException:
        spill.close()
        raise
    return _chunks(small, spill)


async def _chunks(small: bytes | None, spill: IO[bytes]) -> AsyncIterator[bytes]:
    with spill:
        if small is not None:
            yield small
            return
        while chunk := await asyncio.to_thread(spill.read, _CHUNK_BYTES):
            yield chunk


async def explain(
    ports: Ports,
    errand: Errand,
    address: Address,
    request: Query,
    *,
    branch: str | None,
    version: int | None,
    verbose: bool,
) -> str:
    """The plan by which Lance would run the query."""
    return await read_table(
        ports, errand, address, queries.explain, request, branch=branch, version=version, verbose=verbose
    )


async def analyze(
    ports: Ports, errand: Errand, address: Address, request: Query, *, branch: str | None, version: int | None
) -> str:
    """Run the query; its plan with the measured cost of each step."""
    return await read_table(ports, errand, address, queries.analyze, request, branch=branch, version=version)
