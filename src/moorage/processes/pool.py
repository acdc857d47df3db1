"""A few processes that check and translate large documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from threading import Lock
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from moorage.core.errors import Unavailable
from moorage.processes.child import Child
from moorage.processes.messages import Done, Failed, Refused
from moorage.processes.scheduling import background_threads

P = ParamSpec("P")
T = TypeVar("T")

PROCESSES: Final = 2
"""One may be busy with a commit of a gigabyte for a minute."""
IDLE_SECONDS: Final = 900.0
"""Spark may need minutes for a rewrite between its shadow and its offer."""
_MARGIN_SECONDS: Final = 1.0
_ATTEMPTS: Final = 2


class ProcessPool:
    """Runs pure functions of our own modules. A process starts with the first work, and ends after minutes without any.

    The functions have no effects, so the work of a process that was killed is done again by another one.
    """

    def __init__(self, *, processes: int = PROCESSES, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._threads = background_threads(processes, name="process")
        self._lock = Lock()
        self._idle: list[Child] = []
        self._busy: set[Child] = set()
        self._is_closed = False

    async def run(self, work: Callable[Concatenate[bytes, P], T], data: bytes, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `work(data, …)` in a process. It is found there by its name, and its result should be small.

        The data is sent as it is: to pickle a commit of a gigabyte would copy it.
        """
        try:
            future = self._threads.submit(self._run, work, data, args, kwargs)
        except RuntimeError:
            raise _stopping() from None
        try:
            result: T = await asyncio.wrap_future(future)
        finally:
            asyncio.get_running_loop().call_later(self._idle_seconds + _MARGIN_SECONDS, self._forget_ended)
        return result

    def close(self) -> None:
        """Accept no more work, and end the processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            self._is_closed = True
            for child in (*self._idle, *self._busy):
                child.kill()

    def _forget_ended(self) -> None:
        """Collect the exit codes of processes that had no work, so that the system can forget them too."""
        with self._lock:
            self._idle = [each for each in self._idle if each.is_alive]

    def _run(self, work: Callable[..., T], data: bytes, args: tuple[Any, ...], kwargs: dict[str, Any]) -> T:
        codes = []
        for _ in range(_ATTEMPTS):
            child = self._take()
            try:
                child.pipe.send((work, args, kwargs))
                child.pipe.send_bytes(data)
                answer = child.pipe.recv()
            except (EOFError, OSError):
                codes.append(child.reap())
            except BaseException:  # the process may wait for the rest, or its answer would be taken for the next one
                child.reap()
                raise
            else:
                return _result_of(work, answer)
            finally:
                self._give_back(child)
        raise Unavailable(
            f"two processes ended during {work.__name__}, with the exit codes {codes}; nothing was changed: retry"
        )

    def _take(self) -> Child:
        """The process that was used last, or a new one: then others may end."""
        self._forget_ended()
        with self._lock:
            if self._is_closed:
                raise _stopping()
            child = self._idle.pop() if self._idle else Child("moorage.processes.worker", str(self._idle_seconds))
            self._busy.add(child)
            return child

    def _give_back(self, child: Child) -> None:
        with self._lock:
            self._busy.discard(child)
            if not child.pipe.closed:
                self._idle.append(child)


def _result_of(work: Callable[..., T], answer: Done | Refused | Failed) -> T:
    match answer:
        case Done(result=result):
            found: T = result
            return found
        case Refused(error=error):
            raise error
        case Failed(traceback=text):
            raise RuntimeError(f"{work.__name__} failed in its process:\n{text}")


def _stopping() -> Unavailable:
    return Unavailable("the server is stopping")
