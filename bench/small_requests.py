"""Small requests, one after the other, from a process of their own: `python -m bench.small_requests URL`.

A thread of the benchmark would also wait for what the benchmark itself does meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import httpx

PATH = "/api/moorage/v1/catalogs/lake"
_PAUSE_SECONDS = 0.001


def latencies(url: str, work: Callable[[], object]) -> list[float]:
    """The milliseconds of the small requests that began while some work ran."""
    command = [sys.executable, "-m", "bench.small_requests", url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()  # it is ready
        first = time.monotonic()
        work()
        last = time.monotonic()
        found, _ = process.communicate()
    return [latency for began, latency in json.loads(found) if first <= began <= last]


def main() -> None:
    """Ask until the standard input is closed, then print when each request began, and its milliseconds."""
    done, found = threading.Event(), list[tuple[float, float]]()

    def wait() -> None:
        sys.stdin.read()
        done.set()

    threading.Thread(target=wait).start()
    with httpx.Client(base_url=sys.argv[1], trust_env=False) as http:
        for _ in range(200):  # the first ones are slower
            http.get(PATH).raise_for_status()
        print("ready", flush=True)
        while not done.is_set():
            before = time.monotonic()
            http.get(PATH).raise_for_status()
            found.append((before, 1000 * (time.monotonic() - before)))
            time.sleep(_PAUSE_SECONDS)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
