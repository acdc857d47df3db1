"""Named steps at which a test may stop the world.

Each store calls `reach` at the steps between which a crash must leave all or nothing. Unless a
test armed one (by the environment, because the victim is a child process), it does nothing.
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
MIGRATE = ("migrate.begun", "migrate.applied", "migrate.committed")


def reach(step: str) -> None:
    """Die here, as by a power cut, if this step was armed (`MOORAGE_DIE_AT=step:nth`)."""
    if step == _ARMED and next(_left) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
