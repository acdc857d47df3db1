"""The two lanes of a worker process: jobs that need Spark, and jobs that need none and must not wait for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import MappingProxyType

from moorage.client import Client
from moorage.client.spark import SparkUnavailable
from moorage.client.spark.jars import find_java, find_pyspark
from moorage.pipeline.program import Program
from moorage.pipeline.programs import PROGRAMS, spark_programs
from moorage.pipeline.warm_session import WarmSession
from moorage.pipeline.worker import Worker

log = logging.getLogger(__name__)


def run_lanes(
    client: Client,
    stop: threading.Event,
    spark: WarmSession | None,
    *,
    more: Mapping[str, Program] = MappingProxyType({}),
    once: bool = False,
    only_spark: bool = False,
) -> None:
    """Run jobs until `stop` is set. With `once`, return as soon as no job is due in either lane.

    Spark is started immediately, so that the first job that needs it does not wait. With `only_spark` it is started by
    the first job, because such a worker runs beside one that may never get a job for Spark. `more` are further programs
    that need Spark, but not the session.
    """
    light = Worker(client, stop, programs=PROGRAMS)
    if spark is None or not is_available(spark):
        light.run(once=once)
        return
    heavy = Worker(client, stop, programs={**spark_programs(spark), **more})
    if only_spark:
        heavy.run(once=once)
    elif once:
        light.run(once=True)
        heavy.run(once=True)
    else:
        spark.warm_up()
        _run_both(light, heavy, stop)
    spark.stop()


def is_available(spark: WarmSession) -> bool:
    """Whether Spark can run here. If not, one line says what is missing."""
    try:
        find_pyspark()
        if not spark.is_remote:
            find_java()
    except SparkUnavailable as error:
        log.warning("this worker runs no Spark jobs: %s", error)
        return False
    return True


def _run_both(light: Worker, heavy: Worker, stop: threading.Event) -> None:
    failures: list[BaseException] = []

    def run_heavy() -> None:
        try:
            heavy.run()
        except Exception as error:  # noqa: BLE001 - raised again below, in the main thread
            failures.append(error)
            stop.set()

    thread = threading.Thread(target=run_heavy, name="spark-jobs")
    thread.start()
    try:
        light.run()
    finally:
        stop.set()
        thread.join()
    for failure in failures:
        raise failure
