# ruff: noqa: S608  the caller writes the expressions, and runs them with its own rights
"""A managed Delta table in Spark whose rows can be changed: merge, update, delete, and appends by Delta's own writer.

Every statement is Delta's own and runs on a shadow of the table, so all features of the table are kept. It needs a
session of `moorage.client.spark`, whose jars contain Delta.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from moorage.client.delta.shadows import Changed, ShadowTable
from moorage.client.delta.sql_text import with_table
from moorage.client.delta.tables import DeltaTables, Transaction
from moorage.client.spark.settings import TOKEN_SETTING, URL_SETTING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TARGET, SOURCE = "t", "s"
"""The aliases of the table and of the merged rows in conditions and expressions."""


class DeltaTable:
    """The rows of one table. Each method commits one version, or none if it changes no row."""

    def __init__(self, spark: SparkSession, name: str, *, url: str | None = None, token: str | None = None) -> None:
        self._spark, self.name = spark, name
        self._url, self._token = server_of(spark, url, token)

    def merge(self, source: DataFrame, on: str | Sequence[str]) -> Merge:
        """Merge rows into the table. `on` is a list of columns that identify a row, or a condition of `t` and `s`."""
        condition = on if isinstance(on, str) else same_key(on)
        return Merge(self, source, condition)

    def upsert(self, rows: DataFrame, key: str | Sequence[str], *, transaction: Transaction | None = None) -> Changed:
        """Replace the rows with the same key, and add the others. `rows` has each key once."""
        columns = [key] if isinstance(key, str) else key
        return self.merge(rows, columns).when_matched_update().when_not_matched_insert().execute(transaction)

    def update(
        self, values: Mapping[str, str], where: str | None = None, *, transaction: Transaction | None = None
    ) -> Changed:
        """Set columns to SQL expressions, in all rows or in those that fulfil a condition."""
        if not values:
            raise ValueError("an update needs a column to set, such as {'price': 'price * 2'}")
        return self.run(
            f"UPDATE {{table}} AS {TARGET} SET {assignments(values)}{_where(where)}", transaction=transaction
        )

    def delete(self, where: str | None = None, *, transaction: Transaction | None = None) -> Changed:
        """Delete the rows that fulfil a condition, or all rows."""
        return self.run(f"DELETE FROM {{table}} AS {TARGET}{_where(where)}", transaction=transaction)

    def append(self, rows: DataFrame, *, transaction: Transaction | None = None) -> Changed:
        """Add rows with Delta's own writer, which keeps every rule of the table. Columns are matched by name."""
        with view_of(rows) as view:
            statement = f"INSERT INTO {{table}} BY NAME SELECT * FROM {view}"
            return self._run(rows.sparkSession, statement, with_files=False, transaction=transaction)

    def overwrite(
        self, rows: DataFrame, where: str | None = None, *, transaction: Transaction | None = None
    ) -> Changed:
        """Replace all rows, or those that fulfil a condition, which the new rows must fulfil too."""
        with view_of(rows) as view:
            if where is None:
                statement = f"INSERT OVERWRITE {{table}} BY NAME SELECT * FROM {view}"
            else:
                columns = ", ".join(map(quoted, rows.columns))
                statement = f"INSERT INTO {{table}} REPLACE WHERE {where} SELECT {columns} FROM {view}"
            return self._run(rows.sparkSession, statement, transaction=transaction)

    def run(self, statement: str, *, with_files: bool = True, transaction: Transaction | None = None) -> Changed:
        """Run one MERGE, UPDATE, DELETE or INSERT, in which `{table}` is the table.

        After a conflict with another writer it runs again, on the new rows. `with_files=False` is for an INSERT that
        does not read the table. A table accepts each transaction once.
        """
        return self._run(self._spark, statement, with_files=with_files, transaction=transaction)

    def _run(
        self, spark: SparkSession, statement: str, *, with_files: bool = True, transaction: Transaction | None = None
    ) -> Changed:
        # In the session of the rows: a stream has one of its own for its batches, and temporary views belong to one.

        def attempt(shadow: ShadowTable) -> None:
            with tables.shadows.keys(spark, shadow):
                # By its full name: after `USE lake`, Spark would look for `delta` in that catalog.
                spark.sql(with_table(statement, f"spark_catalog.delta.{quoted(shadow.location)}"))

        with DeltaTables(self._url, token=self._token) as tables:
            return tables.shadows.change(self.name, attempt, with_files=with_files, transaction=transaction)


class Merge:
    """The clauses of a merge, in their order. In expressions, `t` is the table and `s` are the merged rows."""

    def __init__(self, table: DeltaTable, source: DataFrame, condition: str) -> None:
        self._table, self._source, self._condition = table, source, condition
        self._clauses: list[str] = []
        self._evolution = ""

    def when_matched_update(self, values: Mapping[str, str] | None = None, *, where: str | None = None) -> Self:
        """Update rows that the source has too: all columns, or those in `values`."""
        return self._add("MATCHED", where, f"UPDATE SET {'*' if values is None else assignments(values)}")

    def when_matched_delete(self, *, where: str | None = None) -> Self:
        """Delete rows that the source has too."""
        return self._add("MATCHED", where, "DELETE")

    def when_not_matched_insert(self, values: Mapping[str, str] | None = None, *, where: str | None = None) -> Self:
        """Insert rows that the table lacks: all columns, or those in `values`."""
        if values is None:
            return self._add("NOT MATCHED", where, "INSERT *")
        columns = ", ".join(map(quoted, values))
        return self._add("NOT MATCHED", where, f"INSERT ({columns}) VALUES ({', '.join(values.values())})")

    def when_not_matched_by_source_update(self, values: Mapping[str, str], *, where: str | None = None) -> Self:
        """Update rows that the source lacks."""
        return self._add("NOT MATCHED BY SOURCE", where, f"UPDATE SET {assignments(values)}")

    def when_not_matched_by_source_delete(self, *, where: str | None = None) -> Self:
        """Delete rows that the source lacks."""
        return self._add("NOT MATCHED BY SOURCE", where, "DELETE")

    def with_schema_evolution(self) -> Self:
        """Add the columns of the source that the table lacks."""
        self._evolution = " WITH SCHEMA EVOLUTION"
        return self

    def execute(self, transaction: Transaction | None = None) -> Changed:
        """Merge and commit."""
        if not self._clauses:
            raise ValueError("a merge needs a clause, such as when_matched_update()")
        with view_of(self._source) as view:
            return self._table._run(
                self._source.sparkSession,
                f"MERGE{self._evolution} INTO {{table}} AS {TARGET} USING {view} AS {SOURCE} ON {self._condition} "
                + " ".join(self._clauses),
                transaction=transaction,
            )

    def _add(self, which: str, where: str | None, action: str) -> Self:
        self._clauses.append(f"WHEN {which}{'' if where is None else f' AND ({where})'} THEN {action}")
        return self


def server_of(spark: SparkSession, url: str | None = None, token: str | None = None) -> tuple[str, str | None]:
    """The server of a session and the caller's token there, unless others are given."""
    found = url or spark.conf.get(URL_SETTING, None) or os.environ.get("MOORAGE_URL")
    if not found:
        raise ValueError("name the server: url='http://…', MOORAGE_URL, or a session of moorage.client.spark")
    return found, token or spark.conf.get(TOKEN_SETTING, None) or os.environ.get("MOORAGE_TOKEN")


@contextmanager
def view_of(rows: DataFrame) -> Iterator[str]:
    """A temporary view of rows for one statement."""
    name = f"moorage_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        rows.sparkSession.catalog.dropTempView(name)


def same_key(columns: Sequence[str]) -> str:
    """The condition that rows of the table and of the source have the same key. Nulls are equal."""
    if not columns:
        raise ValueError("name the columns that identify a row")
    return " AND ".join(f"{TARGET}.{quoted(name)} <=> {SOURCE}.{quoted(name)}" for name in columns)


def assignments(values: Mapping[str, str]) -> str:
    return ", ".join(f"{quoted(column)} = {expression}" for column, expression in values.items())


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {condition}"


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
