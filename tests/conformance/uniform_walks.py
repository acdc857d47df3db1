"""Random operations on a plain Delta table, written by Spark, for walks that compare readers after each of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEATURES = {
    "delta.enableDeletionVectors": "true",
    "delta.enableTypeWidening": "true",
    "delta.columnMapping.mode": "name",
    "delta.checkpointInterval": "100",
    "delta.minReaderVersion": "3",
    "delta.minWriterVersion": "7",
}


class SparkWalk:
    """A table with a partition column, and random operations on it. Equal seeds do the same operations."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int, properties: dict[str, str] | None = None) -> None:
        self.spark, self.folder, self.seed, self.random = spark, folder, seed, random.Random(seed)
        self.name = f"delta.`{folder}`"
        self.next_id = 0
        self.added: list[str] = []
        self.names = 0
        self.done: list[str] = []
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in (properties or FEATURES).items())
        self.sql(
            f"CREATE TABLE {self.name} (id BIGINT, part STRING, number INT, price DECIMAL(5,2), at TIMESTAMP, "
            f"ratio DOUBLE, place STRUCT<city: STRING, zip: INT>) USING delta PARTITIONED BY (part) "
            f"TBLPROPERTIES ({shown})"
        )

    def sql(self, text: str) -> None:
        self.spark.sql(text).collect()

    def step(self) -> str:
        """Carry out one operation, and return its name. Operations that do not apply now are replaced by an append."""
        chosen = self.random.choices(list(OPERATIONS), [weight for _, weight in OPERATIONS.values()])[0]
        OPERATIONS[chosen][0](self)
        self.done.append(chosen)
        return chosen

    def _rows(self, count: int) -> str:
        number, price = ("BIGINT", "DECIMAL(12,2)") if "widen_type" in self.done else ("INT", "DECIMAL(5,2)")
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        rows = [
            f"SELECT CAST({id} AS BIGINT) AS id, '{self.random.choice('abc')}' AS part, "
            f"CAST({id % 90} AS {number}) AS number, "
            f"CAST({id % 99}.25 AS {price}) AS price, TIMESTAMP '2024-01-01 00:00:00.{id % 1000:03d}999' AS at, "
            f"{'NULL' if id % 7 == 0 else f'CAST({id} AS DOUBLE) / 4'} AS ratio, "
            f"named_struct('city', 'c{id % 5}', 'zip', CAST({id} AS INT)) AS place"
            for id in ids
        ]
        return " UNION ALL ".join(rows)

    def _some(self) -> str:
        return f"id % {self.random.choice((3, 4, 5))} = {self.random.randrange(3)}"

    def append(self) -> None:
        with_columns = f"SELECT * FROM ({self._rows(self.random.randint(3, 8))})"
        self.spark.sql(with_columns).coalesce(1).write.format("delta").mode("append").option(
            "mergeSchema", "true"
        ).save(str(self.folder))

    def delete(self) -> None:
        self.sql(f"DELETE FROM {self.name} WHERE {self._some()}")

    def update(self) -> None:
        self.sql(f"UPDATE {self.name} SET number = number + 1, part = 'b' WHERE {self._some()}")

    def merge(self) -> None:
        self.next_id = max(0, self.next_id - 3)
        self.sql(
            f"MERGE INTO {self.name} t USING ({self._rows(6)}) s ON t.id = s.id AND t.part = s.part "
            "WHEN MATCHED THEN UPDATE SET number = s.number + 1000 "
            "WHEN NOT MATCHED THEN INSERT (id, part, number) VALUES (s.id, s.part, s.number)"
        )

    def overwrite(self) -> None:
        self.spark.sql(self._rows(9)).coalesce(1).write.format("delta").mode("overwrite").save(str(self.folder))

    def overwrite_partition(self) -> None:
        rows = self.spark.sql(self._rows(5)).where("part = 'a'")
        rows.write.format("delta").mode("overwrite").option("replaceWhere", "part = 'a'").save(str(self.folder))

    def add_column(self) -> None:
        self.names += 1
        self.added.append(f"extra{self.names}")
        self.sql(f"ALTER TABLE {self.name} ADD COLUMN ({self.added[-1]} INT)")

    def rename_column(self) -> None:
        if not self.added:
            return self.add_column()
        self.names += 1
        old, new = self.added[-1], f"renamed{self.names}"
        self.sql(f"ALTER TABLE {self.name} RENAME COLUMN {old} TO {new}")
        self.added[-1] = new
        return None

    def drop_column(self) -> None:
        if not self.added:
            return self.append()
        self.sql(f"ALTER TABLE {self.name} DROP COLUMN {self.added.pop()}")
        return None

    def widen_type(self) -> None:
        if "widen_type" in self.done:
            return self.append()
        self.sql(f"ALTER TABLE {self.name} ALTER COLUMN number TYPE BIGINT")
        self.sql(f"ALTER TABLE {self.name} ALTER COLUMN price TYPE DECIMAL(12,2)")
        return None

    def compact(self) -> None:
        self.sql(f"OPTIMIZE {self.name}")

    def purge(self) -> None:
        self.sql(f"REORG TABLE {self.name} APPLY (PURGE)")

    def restore(self) -> None:
        history = self.spark.sql(f"DESCRIBE HISTORY {self.name}").select("version", "operation").collect()
        schema_changes = [row.version for row in history if "COLUMN" in row.operation or "CREATE" in row.operation]
        first, last = max(schema_changes), history[0].version
        if last - first < 2:
            return self.append()
        self.sql(f"RESTORE TABLE {self.name} TO VERSION AS OF {self.random.randint(first, last - 1)}")
        return None


OPERATIONS: dict[str, tuple[Callable[[SparkWalk], None], int]] = {
    "append": (SparkWalk.append, 6),
    "delete": (SparkWalk.delete, 4),
    "update": (SparkWalk.update, 3),
    "merge": (SparkWalk.merge, 3),
    "overwrite": (SparkWalk.overwrite, 1),
    "overwrite_partition": (SparkWalk.overwrite_partition, 2),
    "add_column": (SparkWalk.add_column, 1),
    "rename_column": (SparkWalk.rename_column, 1),
    "drop_column": (SparkWalk.drop_column, 1),
    "widen_type": (SparkWalk.widen_type, 1),
    "compact": (SparkWalk.compact, 2),
    "purge": (SparkWalk.purge, 1),
    "restore": (SparkWalk.restore, 2),
}
