"""The workshop: a few worker processes, each with a thread that attends to it."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from threading import BoundedSemaphore, Lock, local
from typing import Any, Concatenate, ParamSpec, TypeVar

from moorage.core.errors import MoorageError, Unavailable
from moorage.datasets.desk import Desk
from moorage.datasets.talk import Done, Failed, Job, Question, Refused, Versions

P = ParamSpec("P")
T = TypeVar("T")

WORKERS = 2
MEMORY_GB = 8
_WAITING = 62
_LOOK_AROUND_SECONDS = 1.0


class WorkerDied(Exception):
    """The worker ended in the middle of a job. Nothing is half done: its files belong to no version."""


class Workshop:
    """A few work at once, some more wait in line; whoever comes beyond that is asked to come back.

    So the memory that requests can take is bounded: by the number of workers, and by what each may have.
    """

    def __init__(
        self,
        *,
        s3: Mapping[str, str] | None = None,
        workers: int = WORKERS,
        memory_gb: int = MEMORY_GB,
        waiting: int = _WAITING,
    ) -> None:
        """`s3` is how pylance reaches tables in that store, `memory_gb` what each worker may have."""
        self._s3 = s3
        self._memory_gb = memory_gb
        self._attendants = ThreadPoolExecutor(workers, thread_name_prefix="lance")
        self._room = BoundedSemaphore(workers + waiting)
        self._own = local()

    async def run(
        self,
        versions: Versions,
        location: str,
        work: Callable[Concatenate[Desk, P], T],
        *given: P.args,
        **named: P.kwargs,
    ) -> T:
        """Let a worker do this to the table at the location, and answer its questions about versions meanwhile.

        Whoever is cancelled takes the worker down with him. That is harmless: what pylance does becomes
        visible by one commit, which the ledger has taken or not.
        """
        if not self._room.acquire(blocking=False):
            raise Unavailable("too many Lance operations are running; try again in a moment")
        store = self._s3 if location.startswith("s3://") else None
        job = _Attended(versions, Job(location=location, store=store, work=work, given=given, named=named))
        try:
            future = self._attendants.submit(self._attend, job)
        except RuntimeError:
            self._room.release()
            raise Unavailable("the server is stopping") from None
        future.add_done_callback(lambda _: self._room.release())
        try:
            result: T = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            job.abandon()
            raise
        return result

    def close(self) -> None:
        """Nothing new begins. The workers end when their attendants do."""
        self._attendants.shutdown(wait=False, cancel_futures=True)

    def _attend(self, job: _Attended) -> Any:
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None or not worker.is_alive:
            worker = self._own.worker = _Worker(self._memory_gb)
            worker.get_ready()
        return job.do_with(worker)


class _Worker:
    """A process that runs `moorage.datasets.worker` on the other end of a pipe. It ends when the pipe does."""

    def __init__(self, memory_gb: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moorage.datasets.worker", str(theirs.fileno()), str(memory_gb)],
                stdin=subprocess.DEVNULL,
                # A session of its own: Ctrl-C in a terminal goes to the whole foreground process group. It would
                # interrupt the worker with a traceback, and fail requests that the stopping server still finishes.
                start_new_session=True,
                pass_fds=[theirs.fileno()],
                env=_environment(),
            )
        self.pipe = Connection(ours.detach())

    def get_ready(self) -> None:
        """Wait until it can work. Whoever is cancelled meanwhile leaves it to the next, who finds it warm."""
        try:
            self.pipe.recv()
        except (EOFError, OSError):
            raise WorkerDied(f"a Lance worker ended with {self.bury()} before it had begun") from None

    @property
    def is_alive(self) -> bool:
        return not self.pipe.closed and self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def bury(self) -> int:
        """Its exit code, once it has ended."""
        self.pipe.close()
        self._process.kill()
        return self._process.wait()

    def __del__(self) -> None:
        self.bury()


def _environment() -> dict[str, str]:
    """Ours without our own settings, among which are passwords, and without those of other clients of S3.

    pylance would warn of every manifest that the catalog, and not pylance, gives its final name.
    """
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MOORAGE_", "AWS_"))}
    return {"LANCE_LOG": "error", **own}


class _Attended:
    """One job, from the side of the server."""

    def __init__(self, versions: Versions, job: Job) -> None:
        self._versions = versions
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._worker: _Worker | None = None
        self._abandoned = False
        self._fault: Exception | None = None

    def abandon(self) -> None:
        """Nobody waits for the result any more."""
        with self._lock:
            self._abandoned = True
            if self._worker is not None:
                self._worker.kill()

    def do_with(self, worker: _Worker) -> Any:
        with self._lock:
            if self._abandoned:
                raise WorkerDied("nobody waits for this job any more")
            self._worker = worker
        try:
            return self._talk(worker.pipe)
        except (EOFError, OSError):
            code = worker.bury()
            raise WorkerDied(f"a Lance worker ended with {code} at {self._job.work.__name__}") from None
        except Exception:
            if self._fault is not None:
                raise self._fault from None
            raise
        finally:
            with self._lock:
                self._worker = None

    def _talk(self, pipe: Connection) -> Any:
        pipe.send(self._job)
        while True:
            match pipe.recv():
                case Question() as question:
                    pipe.send(self._answer(question))
                case Done(result=result):
                    return result
                case Refused(error=error):
                    raise error
                case Failed(traceback=text):
                    raise RuntimeError(f"{self._job.work.__name__} failed in its worker:\n{text}")

    def _answer(self, question: Question) -> Done | Refused:
        asked = getattr(self._versions, question.method)(*question.given)
        answer = asyncio.run_coroutine_threadsafe(asked, self._loop)
        while True:
            try:
                return Done(answer.result(_LOOK_AROUND_SECONDS))
            except MoorageError as error:
                return Refused(error)
            except TimeoutError as fault:
                if answer.done():
                    return self._unanswered(fault)
                # A loop that has stopped answers nobody, and this thread would keep the process from ending.
                if self._loop.is_closed():
                    return Refused(Unavailable("the server is stopping"))
            except Exception as fault:  # noqa: BLE001 - raised again when the worker has ended its job
                return self._unanswered(fault)

    def _unanswered(self, fault: Exception) -> Refused:
        """A fault of our own: the worker is told to give up, for it waits for an answer."""
        self._fault = fault
        return Refused(Unavailable("the catalog could not answer"))
