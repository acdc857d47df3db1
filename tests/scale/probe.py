"""Another client: sends small requests one after another, and reports the longest wait.

It runs as a child process, so that only the server can delay it: `python probe.py PORT PID…`. Each line on
standard input ends a measurement and begins the next. The output is the longest wait, in seconds.

Time that a process is ready to run while the machine runs others is not caused by the server, and on a busy
machine it is most of the elapsed time. The kernel counts it for each thread, so it is subtracted.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import sys
import time

PAUSE_SECONDS = 0.003


class Machine:
    """The time that the threads of a server were ready to run, but waited for a CPU."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._before: dict[int, float] = {}

    def begin(self) -> None:
        self._before = self._delays()

    def waited(self) -> float:
        """Since `begin`: the sum for this process and the server's event loop, and the maximum of the other threads."""
        after = self._delays()
        delays = {task: after[task] - before for task, before in self._before.items() if task in after}
        own = delays.pop(os.getpid(), 0.0) + delays.pop(self._pids[0], 0.0)
        return own + max(delays.values(), default=0.0)

    def _delays(self) -> dict[int, float]:
        tasks = [(os.getpid(), os.getpid())]
        for pid in self._pids:
            try:
                tasks += [(pid, int(task)) for task in os.listdir(f"/proc/{pid}/task")]
            except FileNotFoundError:
                continue
        found = {}
        for pid, task in tasks:
            try:
                with open(f"/proc/{pid}/task/{task}/schedstat") as counts:
                    found[task] = int(counts.read().split()[1]) / 1e9
            except (FileNotFoundError, ProcessLookupError):
                continue
        return found


def main(port: int, pids: list[int]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    machine = Machine(pids)
    longest, requests, number = 0.0, 0, 0
    while True:
        if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            sys.stdout.write(json.dumps({"longest": longest, "requests": requests}) + "\n")
            sys.stdout.flush()
            longest, requests = 0.0, 0
        number += 1
        body = json.dumps({"set_properties": {"n": str(number)}}) if number % 2 else None
        machine.begin()
        began = time.perf_counter()
        connection.request("PATCH" if body else "GET", "/api/moorage/v1/catalogs/bystander", body)
        answer = connection.getresponse()
        content = answer.read()
        took = time.perf_counter() - began
        longest, requests = max(longest, took - machine.waited()), requests + 1
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {content.decode()}")


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(pid) for pid in sys.argv[2:]])
