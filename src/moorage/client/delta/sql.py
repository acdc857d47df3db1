"""SQL statements of a Spark session in which managed Delta tables have their full names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from moorage.client.connection import Client
from moorage.client.delta.shadows import Changed
from moorage.client.delta.sql_text import Named, Statement, statements
from moorage.client.delta.table import DeltaTable, quoted, server_of
from moorage.client.delta.tables import split_name
from moorage.client.errors import ClientError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_sql(
    spark: SparkSession, text: str, *, url: str | None = None, token: str | None = None
) -> Iterator[DataFrame | Changed]:
    """Run the statements of a text, one after the other, each when the one before was taken from the iterator.

    MERGE, UPDATE, DELETE and INSERT on a managed Delta table commit a version and return `Changed`. Every other
    statement is Spark's, and returns its rows.
    """
    for statement in statements(text):
        yield _Run(spark, statement, *server_of(spark, url, token)).result()


class _Run:
    """One statement."""

    def __init__(self, spark: SparkSession, statement: Statement, url: str, token: str | None) -> None:
        self._spark, self._statement, self._url, self._token = spark, statement, url, token
        names = {named.name for named in statement.tables}
        self._managed = {name for name in names if self._is_delta(name)}

    def result(self) -> DataFrame | Changed:
        statement, target = self._statement, self._statement.target
        if target is None or target.name not in self._managed:
            # The views stay for the life of the session: the rows are read after this returns.
            return self._spark.sql(statement.replaced(self._view))
        reads_itself = any(named.name == target.name and not named.is_target for named in statement.tables)
        table = DeltaTable(self._spark, target.name, url=self._url, token=self._token)
        with ExitStack() as stack:
            text = statement.replaced(
                lambda named: "{table}" if self._is_target(named, target) else self._view(named, stack)
            )
            with_files = statement.verb != "insert" or statement.is_overwrite or reads_itself or _replaces(statement)
            return table.run(text, with_files=with_files)

    def _is_target(self, named: Named, target: Named) -> bool:
        return named.name == target.name and named.version is None and named.timestamp is None

    def _view(self, named: Named, stack: ExitStack | None = None) -> str | None:
        """The name of a temporary view of a Delta table; None for other tables, whose names Spark knows."""
        if named.name not in self._managed:
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

    def _is_delta(self, name: str) -> bool:
        catalog, schema, table = split_name(name)
        with Client(self._url, token=self._token) as client:
            try:
                return client.namespaces.table(catalog, [schema], table).format == "delta"
            except ClientError as error:
                if error.status == 404:
                    return False
                raise


def _replaces(statement: Statement) -> bool:
    return statement.verb == "insert" and " replace " in f" {' '.join(statement.text.lower().split())} "
