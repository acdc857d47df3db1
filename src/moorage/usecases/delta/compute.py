"""Where a document is checked or translated, so that other requests do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

from moorage.usecases.ports import Ports

P = ParamSpec("P")
T = TypeVar("T")

_LARGE_BYTES: Final = 256 * 1024
"""Above this, a check on the event loop would noticeably delay other requests."""
_HUGE_BYTES: Final = 1024 * 1024
"""Above this, so would a thread, because it holds the lock of the interpreter: 10 to 20 ms for some 3,000 actions."""


async def check(
    ports: Ports, work: Callable[Concatenate[bytes, P], T], data: bytes, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run a pure function that checks a commit, at once if the commit is small."""
    if len(data) <= _LARGE_BYTES:
        return work(data, *args, **kwargs)
    return await compute(ports, work, data, *args, **kwargs)


async def compute(
    ports: Ports, work: Callable[Concatenate[bytes, P], T], data: bytes, *args: P.args, **kwargs: P.kwargs
) -> T:
    """Run a pure function on a document: on a thread, or in another process if the document is huge."""
    if len(data) <= _HUGE_BYTES:
        return await asyncio.to_thread(work, data, *args, **kwargs)
    return await ports.processes.run(work, data, *args, **kwargs)
