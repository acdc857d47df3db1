"""`moorage up`: runs a catalog with a sample lake and a worker in one process."""

from __future__ import annotations

import shutil
import sys
import threading
from typing import TYPE_CHECKING

from msgspec import structs

from moorage.cli.failure import Failure
from moorage.cli.serve import read_settings, serve
from moorage.cli.spark_worker import SparkWorker

if TYPE_CHECKING:
    from moorage.server.settings import Settings


def run(argv: list[str]) -> int:
    settings = read_settings(
        argv, "up", "Run a catalog with a sample lake and a worker, and print the addresses for clients."
    )
    if settings.auth == "on":
        raise Failure("`moorage up` is for trying it out and has no authentication; run `moorage serve --auth on`")
    settings = structs.replace(settings, auth="off")
    sample_thread, spark_worker = SampleThread(settings), SparkWorker(settings.data / "spark-worker.log")

    def begin(url: str) -> None:
        sample_thread.begin(url)
        spark_worker.begin(url)

    def end() -> None:
        spark_worker.end()
        sample_thread.end()

    try:
        # The workers stop before the server, because they return their current jobs through the server.
        serve(settings, announce=begin, before_stop=end)
    finally:
        end()
    # On a line of its own: a terminal has shown "^C" on the current one.
    print("\nMoorage has stopped.", flush=True)
    return 0


class SampleThread:
    """Creates the sample lake and runs a worker, in a thread. Uses HTTP like any other client."""

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

        from moorage.cli import sample, sample_pipeline
        from moorage.client import Client, ClientError
        from moorage.pipeline.worker import Worker

        try:
            with Client(url) as client:
                sample.make(client)
                sample.make_tables(url, self._settings)
                # Spark reads and writes the sample in this folder, and has no keys for an object store.
                if self._settings.managed_tables != "off" and self._settings.s3 is None:
                    sample_pipeline.make(client, self._settings.data / "sample")
                if not self._stop.is_set():
                    print(_welcome(url, has_delta=self._settings.managed_tables != "off"), flush=True)
                Worker(client, self._stop).run()
        except (ClientError, httpx.HTTPError) as error:
            if not self._stop.is_set():
                print(f"moorage: {error}", file=sys.stderr)


def _welcome(url: str, *, has_delta: bool) -> str:
    command = "moorage" if shutil.which("moorage") else sys.argv[0]
    delta = "; Delta table: sample.science.voyages" if has_delta else ""
    return f"""Moorage is running at {url} with a sample lake and a worker. Press Ctrl-C to stop it.

Page for browsers            {url}/
Unity and Delta clients      {url}/api/2.1/unity-catalog   (catalog: sample{delta})
Iceberg clients              {url}/iceberg   (warehouse: sample; table: sales.orders)
Lance clients                {url}/lance   (table: sample$science$boats)

list the sample namespaces   curl '{url}/api/moorage/v1/catalogs/sample/namespaces'
list the sample tables       curl '{url}/api/2.1/unity-catalog/tables?catalog_name=sample&schema_name=science'
create a namespace           curl -X POST '{url}/api/moorage/v1/catalogs/sample/namespaces' \\
                               -H 'content-type: application/json' -d '{{"path": ["mine"]}}'
run the sample pipeline      {command} pipeline run sample.science.traffic --url {url}
show where rows come from    {command} lineage sample.science.calls_by_port --url {url}
follow all changes           {command} feed --url {url} --follow
show the status              {command} status --url {url}
audit the feed               curl -X POST '{url}/api/moorage/v1/jobs' \\
                               -H 'content-type: application/json' -d '{{"kind": "audit"}}'"""
