"""Worker processes for tests of jobs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moorage.client import Client
from moorage.client.answers import Job
from moorage.testing.server import COMMAND, clean_environment
from scripts.steps import TOOLS

SPARK = ("--spark-master", "local[2]", "--spark-conf", "spark.driver.memory=1g")


@contextmanager
def spark_worker(url: str, log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker process with Spark, with the jars that the tests have already. It is stopped at the end."""
    settings = clean_environment(MOORAGE_SPARK_JARS=str(TOOLS / "spark-jars"), **environment)
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [*COMMAND, "worker", "--url", url, *SPARK], env=settings, stdout=output, stderr=output
        ) as process,
    ):
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_for(client: Client, job: Job, *, seconds: float = 180.0) -> Job:
    """The job after its end."""
    deadline = time.monotonic() + seconds
    while (now := client.jobs.get(job.id)).ended_at_ms is None:
        assert time.monotonic() < deadline, now
        time.sleep(0.2)
    return now
