"""How long a thread computes before the kernel lets another one run.

When all cores compute, a request that arrives waits until a time slice of one of them ends, which takes 1 to 4 ms. In
Linux 6.12 and later, a thread that wakes up goes before a running one with a longer slice. So the event loop asks for a
short slice, and the processes that compute ask for a long one. The shares of the cores stay the same. It needs no
privilege, and has no effect on other systems.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from ctypes import c_int32, c_long, c_uint32, c_uint64
from typing import Final

SHORT_SECONDS: Final = 0.000_1
"""The shortest that the kernel accepts."""
LONG_SECONDS: Final = 0.02

_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""The numbers of sched_setattr and sched_getattr."""
_THIS_THREAD: Final = 0
_SHARED_POLICIES: Final = (0, 3)
"""Those with time slices: SCHED_OTHER and SCHED_BATCH."""
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


def ask_for_time_slice(seconds: float) -> None:
    """Ask the kernel for time slices of this length for this thread."""
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        return
    change, read = map(c_long, calls)
    system_call, found = ctypes.CDLL(None).syscall, _Attributes()
    size, none = ctypes.sizeof(found), c_long(0)
    if system_call(read, c_long(_THIS_THREAD), ctypes.byref(found), c_long(size), none) != 0:
        return
    if found.policy in _SHARED_POLICIES:
        found.size, found.flags, found.runtime_ns = size, found.flags | _RESET_ON_FORK, int(seconds * 1e9)
        # It fails in a container that forbids the call. Requests wait longer there.
        system_call(change, c_long(_THIS_THREAD), ctypes.byref(found), none)
