"""SQL statements of a Spark session in which managed Delta tables have their full names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from moorage.client.connection import Client
from moorage.client.delta.shadows import Changed
from moorage.client.delta.sql_text import PLACE, Named, Statement, statements
from moorage.client.delta.table import DeltaTable, quoted, server_of
from moorage.client.delta.tables import split_name
from moorage.client.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DELTA: Final = "delta"
LANCE: Final = "lance"


def run_sql(
    spark: SparkSession, text: str, *, url: str | None = None, token: str | None = None
) -> list[DataFrame | Changed]:
    """Run the statements of a text, one after the other, and return a result for each.

    MERGE, UPDATE, DELETE and INSERT on a managed Delta table commit a version and return `Changed`. Every other
    statement is Spark's, and returns its rows, which are read when they are used.
    """
    return list(results_of(spark, text, url=url, token=token))


def results_of(
    spark: SparkSession, text: str, *, url: str | None = None, token: str | None = None
) -> Iterator[DataFrame | Changed]:
    """Run each statement of a text when the result of the one before was taken, so that its rows can be read first."""
    for statement in statements(text):
        yield _Run(spark, statement, *server_of(spark, url, token)).result()


class _Run:
    """One statement."""

    def __init__(self, spark: SparkSession, statement: Statement, url: str, token: str | None) -> None:
        self._spark, self._statement, self._url, self._token = spark, statement, url, token
        self._formats = {named.name: self._format_of(named.name) for named in statement.tables}

    def result(self) -> DataFrame | Changed:
        statement, target = self._statement, self._statement.target
        self._require_rows_only()
        if target is None or self._formats[target.name] != DELTA:
            # The views stay for the life of the session: the rows are read after this returns.
            return self._spark.sql(statement.replaced(self._view))
        reads_itself = any(named.name == target.name and not named.is_target for named in statement.tables)
        table = DeltaTable(self._spark, target.name, url=self._url, token=self._token)
        with ExitStack() as stack:
            text = statement.replaced(
                lambda named: PLACE if self._is_target(named, target) else self._view(named, stack)
            )
            with_files = statement.verb != "insert" or statement.is_overwrite or reads_itself or _replaces(statement)
            return table.run(text, with_files=with_files)

    def _require_rows_only(self) -> None:
        """Every other statement would meet a view, and Spark's error would name it."""
        for named in self._statement.tables:
            kind = self._formats[named.name]
            if kind not in (DELTA, LANCE) or named.is_source or (named.is_target and kind == DELTA):
                continue
            raise ValueError(
                f"{self._statement.verb.upper()} is not offered for the {kind.capitalize()} table '{named.name}': "
                "SQL reads the rows of Delta and Lance tables, and changes those of Delta tables with MERGE, UPDATE, "
                "DELETE and INSERT. To change or drop the table itself, use the Unity Catalog API"
            )

    def _is_target(self, named: Named, target: Named) -> bool:
        return named.name == target.name and named.version is None and named.timestamp is None

    def _view(self, named: Named, stack: ExitStack | None = None) -> str | None:
        """The name of a temporary view of a Delta or Lance table; None for other tables, whose names Spark knows."""
        if self._formats[named.name] not in (DELTA, LANCE):
            return None
        reader = self._spark.read.format("moorage").option("url", self._url)
        options = {"token": self._token, "versionAsOf": named.version, "timestampAsOf": named.timestamp}
        for key, value in options.items():
            if value is not None:
                reader = reader.option(key, value)
        view = f"moorage_{uuid.uuid4().hex}"
        reader.load(named.name).createOrReplaceTempView(view)
        if stack is not None:
            stack.callback(self._spark.catalog.dropTempView, view)
        return quoted(view)

    def _format_of(self, name: str) -> str | None:
        catalog, schema, table = split_name(name)
        with Client(self._url, token=self._token) as client:
            try:
                return client.namespaces.table(catalog, [schema], table).format
            except ClientError as error:
                if error.status == 404:
                    return None
                raise


def _replaces(statement: Statement) -> bool:
    return statement.verb == "insert" and " replace " in f" {' '.join(statement.text.lower().split())} "
