"""A pool of worker processes, each served by one thread of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from multiprocessing.connection import Connection
from threading import BoundedSemaphore, Lock, local
from typing import Any, Concatenate, ParamSpec, TypeVar

from moorage.core.errors import MoorageError, Unavailable
from moorage.datasets.job_table import JobTable
from moorage.datasets.messages import Job, Question, Versions
from moorage.processes.child import Child
from moorage.processes.messages import Done, Failed, Refused
from moorage.processes.scheduling import background_threads

P = ParamSpec("P")
T = TypeVar("T")

WORKERS = 2
MEMORY_GB = 8
OptionsOf = Callable[[str], Awaitable[Mapping[str, str] | None]]
_QUEUE_LENGTH = 62
_POLL_SECONDS = 1.0


class WorkerDied(Exception):
    """The worker process ended during a job. The table is unchanged: the job's files belong to no version."""


class WorkerPool:
    """Runs a few jobs in parallel, queues some more, and refuses further ones with Unavailable.

    This bounds the memory of all requests: by the number of workers, and by the memory limit of each.
    """

    def __init__(
        self,
        *,
        options_of: OptionsOf | None = None,
        workers: int = WORKERS,
        memory_gb: int = MEMORY_GB,
        waiting: int = _QUEUE_LENGTH,
    ) -> None:
        """`options_of` returns pylance's storage options for a location. `memory_gb` is the limit of each worker."""
        self._options_of = options_of
        self._memory_gb = memory_gb
        self._threads = background_threads(workers, name="lance")
        self._capacity = BoundedSemaphore(workers + waiting)
        self._thread_local = local()

    async def run(
        self,
        versions: Versions,
        location: str,
        work: Callable[Concatenate[JobTable, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a job on the table at the location in a worker, and answer the worker's questions about versions.

        Cancelling the call kills the worker. That is safe: its changes become visible by one commit, which
        the ledger has either accepted or not.
        """
        store = None if self._options_of is None else await self._options_of(location)
        if not self._capacity.acquire(blocking=False):
            raise Unavailable("too many Lance operations are running; retry in a moment")
        job = _RunningJob(versions, Job(location=location, store=store, work=work, args=args, kwargs=kwargs))
        try:
            future = self._threads.submit(self._run_job, job)
        except RuntimeError:
            self._capacity.release()
            raise Unavailable("the server is stopping") from None
        future.add_done_callback(lambda _: self._capacity.release())
        try:
            result: T = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            job.abandon()
            raise
        return result

    def close(self) -> None:
        """Accept no more jobs. Each worker ends when its thread does."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _run_job(self, job: _RunningJob) -> Any:
        worker: _Worker | None = getattr(self._thread_local, "worker", None)
        if worker is None or not worker.is_alive:
            worker = self._thread_local.worker = self._start_worker()
        return job.run_on(worker)

    def _start_worker(self) -> _Worker:
        """A worker that has loaded pylance.

        Ctrl-C in a terminal kills a process that does not have its session yet, so one more attempt is made.
        """
        try:
            return _Worker(self._memory_gb).wait_until_ready()
        except WorkerDied:
            return _Worker(self._memory_gb).wait_until_ready()


class _Worker(Child):
    """A process that runs pylance."""

    def __init__(self, memory_gb: int) -> None:
        # pylance logs a warning for every manifest that the catalog renames to its final name.
        super().__init__("moorage.datasets.worker", str(memory_gb), environment={"LANCE_LOG": "error"})

    def wait_until_ready(self) -> _Worker:
        """Wait until the worker has loaded pylance. If the job is cancelled in the meantime, the next job uses it."""
        try:
            self.pipe.recv()
        except (EOFError, OSError):
            raise WorkerDied(f"a Lance worker ended with exit code {self.reap()} while it was starting") from None
        return self


class _RunningJob:
    """The server's side of one job."""

    def __init__(self, versions: Versions, job: Job) -> None:
        self._versions = versions
        self._job = job
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._worker: _Worker | None = None
        self._abandoned = False
        self._catalog_error: Exception | None = None

    def abandon(self) -> None:
        """Stop the job: the caller no longer waits for its result."""
        with self._lock:
            self._abandoned = True
            if self._worker is not None:
                self._worker.kill()

    def run_on(self, worker: _Worker) -> Any:
        with self._lock:
            if self._abandoned:
                raise WorkerDied("the job was cancelled before it started")
            self._worker = worker
        try:
            return self._exchange_messages(worker.pipe)
        except (EOFError, OSError):
            code = worker.reap()
            raise WorkerDied(f"a Lance worker ended with exit code {code} during {self._job.work.__name__}") from None
        except Exception:
            if self._catalog_error is not None:
                raise self._catalog_error from None
            raise
        finally:
            with self._lock:
                self._worker = None

    def _exchange_messages(self, pipe: Connection) -> Any:
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
                    raise RuntimeError(f"{self._job.work.__name__} failed in its Lance worker:\n{text}")

    def _answer(self, question: Question) -> Done | Refused:
        coroutine = getattr(self._versions, question.method)(*question.args)
        answer = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        while True:
            try:
                return Done(answer.result(_POLL_SECONDS))
            except MoorageError as error:
                return Refused(error)
            except TimeoutError as error:
                if answer.done():
                    return self._fail_question(error)
                # A closed event loop never answers, and this thread would keep the process from ending.
                if self._loop.is_closed():
                    return Refused(Unavailable("the server is stopping"))
            except Exception as error:  # noqa: BLE001 - raised again when the worker has finished its job
                return self._fail_question(error)

    def _fail_question(self, error: Exception) -> Refused:
        """Refuse the question after an error in the server, because the worker waits for an answer."""
        self._catalog_error = error
        return Refused(Unavailable("the catalog could not answer"))
