"""Named steps at which a test can kill the process.

Code calls `reach` at the steps between which a crash must leave all or nothing, or something that the next attempt
completes. It does nothing unless a test armed the step. A test arms it by the environment, because the process to kill
is a child.
"""

from __future__ import annotations

import os
import signal
from itertools import count

_ARMED, _, _COUNT = os.environ.get("MOORAGE_DIE_AT", "").partition(":")
_left = count(int(_COUNT or 1), -1)

WORKER = ("worker.taken", "worker.done", "worker.reported")
"""Steps of every job in the worker."""
COMPACTION = ("worker.planned", "worker.rewritten", "worker.offered")
CHECKPOINT = ("checkpoint.begun", "checkpoint.sidecars", "checkpoint.written", "checkpoint.hinted")
FILE_WRITTEN = "settle.written"
"""Each file of a change that the ledger has not recorded yet."""
VACUUM = ("vacuum.listed", "vacuum.deleted", "vacuum.cleaned")


def reach(step: str) -> None:
    """Kill this process with SIGKILL if the step is armed (`MOORAGE_DIE_AT=step:nth`)."""
    if step == _ARMED and next(_left) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
