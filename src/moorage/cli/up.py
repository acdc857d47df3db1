"""`moorage up`: runs a catalog with a sample lake and a worker in one process."""

from __future__ import annotations

import shutil
import sys
import threading

from moorage.cli.serve import read_settings, serve


def run(argv: list[str]) -> int:
    settings = read_settings(
        argv, "up", "Run a catalog with a sample lake and a worker, and print the addresses for clients."
    )
    companion = Companion()
    try:
        # The worker stops before the server, because it returns its current job through the server.
        serve(settings, announce=companion.begin, take_leave=companion.end)
    finally:
        companion.end()
    return 0


class Companion:
    """Creates the sample lake and runs a worker, in a thread. Uses HTTP like any other client."""

    def __init__(self) -> None:
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
                sample.make_tables(url)
                print(_welcome(url), flush=True)
                Worker(client, self._stop).run()
        except (ClientError, httpx.HTTPError) as error:
            if not self._stop.is_set():
                print(f"moorage: {error}", file=sys.stderr)


def _welcome(url: str) -> str:
    command = "moorage" if shutil.which("moorage") else sys.argv[0]
    return f"""Moorage is running at {url} with a sample lake and a worker. Press Ctrl-C to stop it.

Unity and Delta clients      {url}/api/2.1/unity-catalog   (catalog: sample)
Iceberg clients              {url}/iceberg   (warehouse: sample)
Lance clients                {url}/lance   (identifiers begin with the catalog: sample)

list the sample namespaces   curl '{url}/api/moorage/v1/catalogs/sample/namespaces'
show a sample table          curl '{url}/api/2.1/unity-catalog/tables/sample.science.boats'
create a namespace           curl -X POST '{url}/api/moorage/v1/catalogs/sample/namespaces' \\
                               -H 'content-type: application/json' -d '{{"path": ["mine"]}}'
follow all changes           {command} feed --url {url} --follow
show the status              {command} status --url {url}
audit the feed               curl -X POST '{url}/api/moorage/v1/jobs' \\
                               -H 'content-type: application/json' -d '{{"kind": "audit"}}'"""
