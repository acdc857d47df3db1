"""A worker process. It runs one job after another until the server closes the pipe.

python -m moorage.datasets.worker <file descriptor of the pipe> <memory limit in GB>
"""

from __future__ import annotations

import resource
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from moorage.core.errors import MoorageError
from moorage.datasets.errors import to_moorage_error
from moorage.datasets.job_table import JobTable
from moorage.datasets.messages import READY, Job, Question
from moorage.processes.messages import Done, Failed, Refused
from moorage.processes.scheduling import compute_in_background

_GB = 1024**3


def main(descriptor: int, memory_gb: int) -> None:
    compute_in_background()
    # A job that allocates more than this kills this process only.
    resource.setrlimit(resource.RLIMIT_DATA, (memory_gb * _GB, memory_gb * _GB))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pipe = Connection(descriptor)
    import lance  # noqa: F401 - takes most of a second; no job should wait for it

    try:
        pipe.send(READY)
        while True:
            pipe.send(_run(pipe.recv(), pipe))
    except (EOFError, OSError):
        return


def _run(job: Job, pipe: Connection) -> Done | Refused | Failed:
    def ask(question: Question) -> Any:
        pipe.send(question)
        return pipe.recv()

    desk = JobTable(job.location, ask, job.store)
    try:
        return Done(job.work(desk, *job.args, **job.kwargs))
    except MoorageError as error:
        return Refused(error)
    except BaseException as error:  # noqa: BLE001 - pylance raises a Rust panic as a BaseException
        refusal = to_moorage_error(error, desk.namespace)
        return Failed(traceback.format_exc()) if refusal is None else Refused(refusal)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
