"""A process at the other end of a pipe."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.connection import Connection
from types import MappingProxyType

from moorage.core.errors import Unavailable

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Child:
    """A process that runs a module of ours: `python -m <module> <file descriptor of the pipe> <arguments>`.

    The module ends when the pipe is closed, so no process outlives the server, however that ends.
    """

    def __init__(self, module: str, *arguments: str, environment: Mapping[str, str] = _NOTHING) -> None:
        ours, theirs = socket.socketpair()
        self.pipe = Connection(ours.detach())
        with theirs:
            command = [sys.executable, "-m", module, str(theirs.fileno()), *arguments]
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    # A process group of its own: Ctrl-C in a terminal goes to the whole foreground group. It would
                    # interrupt the process with a traceback, and fail requests that the stopping server still finishes.
                    # Not a session of its own: Linux gives each session the same share of the cores, so the lower
                    # priority of the process (see `scheduling`) would have no effect.
                    process_group=0,
                    pass_fds=[theirs.fileno()],
                    env={**environment, **_environment()},
                )
            except OSError as error:  # no memory, or too many processes
                self.pipe.close()
                raise Unavailable(f"no process could be started: {error}; nothing was changed: retry") from error

    @property
    def is_alive(self) -> bool:
        return not self.pipe.closed and self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def reap(self) -> int:
        """Kill the process, wait for its end, and return its exit code."""
        self.pipe.close()
        self._process.kill()
        return self._process.wait()

    def __del__(self) -> None:
        if not self.pipe.closed:
            self.reap()


def _environment() -> dict[str, str]:
    """The server's environment without Moorage's settings, which include passwords, and without AWS settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("MOORAGE_", "AWS_"))}
