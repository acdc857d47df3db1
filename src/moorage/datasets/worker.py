"""A worker process: it does one job after another, until the pipe to its server ends.

python -m moorage.datasets.worker <file descriptor of the pipe> <how much memory it may have, in GB>
"""

from __future__ import annotations

import resource
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from moorage.core.errors import MoorageError
from moorage.datasets.desk import Desk
from moorage.datasets.refusals import refusal_of
from moorage.datasets.talk import READY, Done, Failed, Job, Question, Refused

_GB = 1024**3


def main(descriptor: int, memory_gb: int) -> None:
    # What asks for more than this dies here, alone.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_gb * _GB, memory_gb * _GB))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipe = Connection(descriptor)
    import lance  # noqa: F401 - takes most of a second, and no job shall wait for it

    try:
        pipe.send(READY)
        while True:
            pipe.send(_do(pipe.recv(), pipe))
    except (EOFError, OSError):
        return


def _do(job: Job, pipe: Connection) -> Done | Refused | Failed:
    def ask(question: Question) -> Any:
        pipe.send(question)
        return pipe.recv()

    desk = Desk(job.location, ask, job.store)
    try:
        return Done(job.work(desk, *job.given, **job.named))
    except MoorageError as error:
        return Refused(error)
    except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception in Python
        refusal = refusal_of(error, desk.namespace)
        return Failed(traceback.format_exc()) if refusal is None else Refused(refusal)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
