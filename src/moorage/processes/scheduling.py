"""Which threads the kernel prefers when there are more of them than cores: those that serve requests.

A request that arrives while all cores compute waits until one of them is free, which takes 1 to 4 ms. Three settings of
Linux shorten that, none of which needs a privilege:

- A thread of the policy SCHED_BATCH that wakes up does not interrupt a running one. Otherwise each call of a thread,
  such as the write of a file, takes the core from the event loop, which then waits although another core may be free.
- A thread that wakes up interrupts a running one with a longer time slice (Linux 6.12 and later). So the event loop
  asks for a short slice, and threads and processes that compute ask for a long one.
- Threads and processes that compute have a slightly lower priority. Not much lower: a thread that the kernel has
  stopped may hold the lock of the interpreter, for which the event loop then waits. With SCHED_IDLE it waited for 3 to
  7 ms.

The settings have no effect on other systems.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ctypes import c_int32, c_long, c_uint32, c_uint64
from typing import Final

_SHORT_SECONDS: Final = 0.000_1
"""The shortest that the kernel accepts."""
_LONG_SECONDS: Final = 0.02
_NICER: Final = 5

_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of sched_setattr and sched_getattr."""
_THIS_THREAD: Final = 0
_RESET_ON_FORK: Final = 1
"""New threads and processes get the usual slice."""


class _Attributes(ctypes.Structure):
    """`struct sched_attr` of Linux."""

    _fields_ = (
        ("size", c_uint32),
        ("policy", c_uint32),
        ("flags", c_uint64),
        ("nice", c_int32),
        ("priority", c_uint32),
        ("runtime_ns", c_uint64),
        ("deadline_ns", c_uint64),
        ("period_ns", c_uint64),
    )


def serve_requests() -> None:
    """Let this thread go before those that compute."""
    _ask_for_time_slice(_SHORT_SECONDS)


def compute_in_background() -> None:
    """Let threads that serve requests go before this one."""
    if sys.platform != "linux":
        return
    with suppress(OSError):  # a container may forbid the calls
        # A process that such a thread starts has its policy and priority already, but not its time slice.
        if os.sched_getscheduler(_THIS_THREAD) == os.SCHED_OTHER:
            os.sched_setscheduler(_THIS_THREAD, os.SCHED_BATCH, os.sched_param(0))
            os.nice(_NICER)
    _ask_for_time_slice(_LONG_SECONDS)


def background_threads(most: int | None = None, *, name: str) -> ThreadPoolExecutor:
    """Threads that compute in the background, as many as asyncio has by default."""
    return ThreadPoolExecutor(most, thread_name_prefix=name, initializer=compute_in_background)


def _ask_for_time_slice(seconds: float) -> None:
    """Ask the kernel for time slices of this length for this thread."""
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        return
    change, read = map(c_long, calls)
    system_call, found = ctypes.CDLL(None).syscall, _Attributes()
    size, none = ctypes.sizeof(found), c_long(0)
    if system_call(read, c_long(_THIS_THREAD), ctypes.byref(found), c_long(size), none) != 0:
        return
    if found.policy in {os.SCHED_OTHER, os.SCHED_BATCH}:  # the others have no time slices
        found.size, found.flags, found.runtime_ns = size, found.flags | _RESET_ON_FORK, int(seconds * 1e9)
        # It fails in a container that forbids the call. Requests wait longer there.
        system_call(change, c_long(_THIS_THREAD), ctypes.byref(found), none)
