"""Runs SQL on Spark so that a job can be cancelled while a statement runs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from typing import TYPE_CHECKING, Any, Final

from moorage.pipeline.program import Progress

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_CHECK_SECONDS: Final = 0.5


def quoted(name: str) -> str:
    """A name in SQL."""
    return "`" + name.replace("`", "``") + "`"


def own_session(session: SparkSession) -> SparkSession:
    """A session with its own settings and catalogs on the same Spark. Spark Connect has another name for it."""
    make: Any = getattr(session, "cloneSession", None) or session.newSession
    made: SparkSession = make()
    return made


def run_statement(spark: SparkSession, sql: str, *, tag: str, progress: Progress) -> list[Row]:
    """Run a statement and return its rows. If the job ends meanwhile, the statement is interrupted.

    `progress` raises if the worker lost the job or stops. Without the interruption, Spark would work on for nothing.
    """

    def run() -> list[Any]:
        spark.addTag(tag)
        try:
            rows: list[Any] = spark.sql(sql).collect()
            return rows
        finally:
            spark.removeTag(tag)

    with ThreadPoolExecutor(1, thread_name_prefix="statement") as pool:
        running = pool.submit(run)
        while True:
            try:
                return running.result(timeout=_CHECK_SECONDS)
            except NotYet:
                if running.done():
                    raise
            try:
                progress({})
            except BaseException:
                spark.interruptTag(tag)
                raise
