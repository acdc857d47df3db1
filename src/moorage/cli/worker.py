"""`moorage worker`: runs the jobs of a catalog until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import signal
import sys
import threading

from moorage.cli import arguments
from moorage.cli.server_client import connected


def run(argv: list[str]) -> int:
    parser = arguments.parser("worker", "Take jobs from a running catalog and run them.")
    arguments.add_server(parser)
    parser.add_argument("--once", action="store_true", help="exit when no job is due, instead of waiting for more")
    args = parser.parse_args(argv)

    from moorage.pipeline.worker import Worker

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with connected(args.url, token=args.token, patience_s=30.0) as client:
        Worker(client, stop).run(once=args.once)
    return 0
