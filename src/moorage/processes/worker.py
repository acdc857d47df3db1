"""A process that computes. It runs one function after another until the server closes the pipe, or asks no more.

python -m moorage.processes.worker <file descriptor of the pipe> <seconds without work after which it ends>
"""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from moorage.core.errors import MoorageError
from moorage.processes.messages import Done, Failed, Refused
from moorage.processes.scheduling import compute_in_background


def main(descriptor: int, idle_seconds: float) -> None:
    compute_in_background()
    gc.set_threshold(50_000, 20, 50)  # as in the server: the actions of a commit are no cycles
    pipe = Connection(descriptor)
    with suppress(EOFError, OSError):
        while pipe.poll(idle_seconds):
            work, args, kwargs = pipe.recv()
            pipe.send(_run(work, pipe.recv_bytes(), args, kwargs))


def _run(
    work: Callable[..., Any], data: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Done | Refused | Failed:
    try:
        return Done(work(data, *args, **kwargs))
    except MoorageError as error:
        return Refused(error)
    except Exception:  # noqa: BLE001 - raised again in the server
        return Failed(traceback.format_exc())


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
