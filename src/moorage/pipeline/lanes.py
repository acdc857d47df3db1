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
) -> None:
    """Run jobs until `stop` is set. With `once`, return as soon as no job is due in either lane.

    `more` are further programs that need Spark, but not the session.
    """
    light = Worker(client, stop, programs=PROGRAMS)
    programs = {} if spark is None else {**spark_programs(spark), **more}
    if spark is None or not programs or not is_available(spark):
        light.run(once=once)
        return
    heavy = Worker(client, stop, programs=programs)
    if once:
        light.run(once=True)
        heavy.run(once=True)
    else:
        _run_both(light, heavy, stop, spark if spark_programs(spark) else None)
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


def _run_both(light: Worker, heavy: Worker, stop: threading.Event, spark: WarmSession | None) -> None:
    failures: list[BaseException] = []

    def run_heavy() -> None:
        try:
            heavy.run()
        except Exception as error:  # noqa: BLE001 - raised again below, in the main thread
            failures.append(error)
            stop.set()

    if spark is not None:
        spark.warm_up()
    thread = threading.Thread(target=run_heavy, name="spark-jobs")
    thread.start()
    try:
        light.run()
    finally:
        stop.set()
        thread.join()
    for failure in failures:
        raise failure
