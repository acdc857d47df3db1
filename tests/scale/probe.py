"""Another caller: asks a server small things, one after another, and tells how long it had to wait at most.

Run as a child, so that nothing but the server can keep it waiting: `python probe.py PORT`. Each line on
standard input ends a measurement and begins the next; the answer is the longest wait so far, in seconds,
and how much longer than asked for it slept at most: so long does this machine keep a process waiting that
nobody but the machine holds up.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time

PAUSE_SECONDS = 0.003


def main(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    longest, overslept, asked, number = 0.0, 0.0, 0, 0
    while True:
        began = time.perf_counter()
        if select.select([sys.stdin], [], [], PAUSE_SECONDS)[0]:
            if not sys.stdin.readline():
                return
            sys.stdout.write(json.dumps({"longest": longest, "overslept": overslept, "asked": asked}) + "\n")
            sys.stdout.flush()
            longest, overslept, asked = 0.0, 0.0, 0
        else:
            overslept = max(overslept, time.perf_counter() - began - PAUSE_SECONDS)
        number += 1
        body = json.dumps({"set_properties": {"n": str(number)}}) if number % 2 else None
        began = time.perf_counter()
        connection.request("PATCH" if body else "GET", "/api/moorage/v1/catalogs/bystander", body)
        answer = connection.getresponse()
        content = answer.read()
        longest, asked = max(longest, time.perf_counter() - began), asked + 1
        if answer.status != 200:
            raise SystemExit(f"{answer.status}: {content.decode()}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
