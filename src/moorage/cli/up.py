"""`moorage up`: a catalog with a sample lake and a worker beside it, in one process."""

from __future__ import annotations

import shutil
import sys
import threading
from typing import TYPE_CHECKING

from moorage.cli.serve import read_settings, serve

if TYPE_CHECKING:
    from moorage.server.settings import Settings


def run(argv: list[str]) -> int:
    settings = read_settings(
        argv, "up", "Run a catalog with a small sample lake and a worker, and say where to point clients."
    )
    companion = Companion(settings)
    try:
        # The worker goes first: the job in its hand is given back through the server.
        serve(settings, announce=companion.begin, take_leave=companion.end)
    finally:
        companion.end()
    # On a line of its own: a terminal has shown "^C" on the current one.
    print("\nMoorage has stopped.", flush=True)
    return 0


class Companion:
    """What a visitor needs beside the server. Speaks HTTP to it like everybody else, from a thread."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, url: str) -> None:
        self._thread = threading.Thread(target=self._accompany, args=(url,), name="companion")
        self._thread.start()

    def end(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _accompany(self, url: str) -> None:
        import httpx

        from moorage.cli import sample
        from moorage.client import Client, ClientError
        from moorage.pipeline.worker import Worker

        try:
            with Client(url) as client:
                sample.make(client)
                sample.make_tables(url, self._settings)
                if not self._stop.is_set():
                    print(_welcome(url, has_delta=self._settings.managed_tables != "off"), flush=True)
                Worker(client, self._stop).run()
        except (ClientError, httpx.HTTPError) as error:
            if not self._stop.is_set():
                print(f"moorage: {error}", file=sys.stderr)


def _welcome(url: str, *, has_delta: bool) -> str:
    command = "moorage" if shutil.which("moorage") else sys.argv[0]
    delta = "; Delta table: sample.science.voyages" if has_delta else ""
    return f"""Moorage is at {url}, with a sample lake and a worker. Ctrl-C stops it.

Unity and Delta clients      {url}/api/2.1/unity-catalog   (catalog: sample{delta})
Iceberg clients              {url}/iceberg   (warehouse: sample; table: sales.orders)
Lance clients                {url}/lance   (table: sample$science$boats)

look at the sample lake      curl '{url}/api/moorage/v1/catalogs/sample/namespaces'
look at its tables           curl '{url}/api/2.1/unity-catalog/tables?catalog_name=sample&schema_name=science'
make a namespace             curl -X POST '{url}/api/moorage/v1/catalogs/sample/namespaces' \\
                               -H 'content-type: application/json' -d '{{"path": ["mine"]}}'
see every change             {command} feed --url {url} --follow
see how it is doing          {command} status --url {url}
check the whole feed         curl -X POST '{url}/api/moorage/v1/jobs' \\
                               -H 'content-type: application/json' -d '{{"kind": "audit"}}'"""
