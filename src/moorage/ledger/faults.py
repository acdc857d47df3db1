"""Named steps at which a test can kill the process.

Each store calls `reach` at the steps between which a crash must leave all or nothing. It does nothing
unless a test armed the step. A test arms it by the environment, because the process to kill is a child.
"""

from __future__ import annotations

import os
import signal
from itertools import count

_ARMED, _, _COUNT = os.environ.get("MOORAGE_DIE_AT", "").partition(":")
_left = count(int(_COUNT or 1), -1)

APPEND = (
    "append.begun",
    "append.checked",
    "append.applied",
    "append.recorded",
    "append.committed",
)
UNIFORM = ("uniform.begun", "uniform.converted", "uniform.recorded")
MIGRATE = ("migrate.begun", "migrate.applied", "migrate.committed")


def reach(step: str) -> None:
    """Kill this process with SIGKILL if the step is armed (`MOORAGE_DIE_AT=step:nth`)."""
    if step == _ARMED and next(_left) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
