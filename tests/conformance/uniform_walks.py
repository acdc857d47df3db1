"""Random operations on a plain Delta table, written by Spark, for walks that compare readers after each of them."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<": operator.lt, ">=": operator.ge}


class Condition(NamedTuple):
    """A condition on one column, by which readers may skip files."""

    column: str
    comparison: str
    value: Any

    @property
    def sql(self) -> str:
        """As Spark and DuckDB write it."""
        value = f"TIMESTAMP '{self.value:%Y-%m-%d %H:%M:%S.%f}'" if isinstance(self.value, datetime) else self.value
        return f"{self.column} {self.comparison} {repr(value) if isinstance(self.value, str) else value}"

    @property
    def row_filter(self) -> str:
        """As PyIceberg writes it."""
        value = f"'{self.value.isoformat()}'" if isinstance(self.value, datetime) else self.value
        return f"{self.column} {self.comparison} {repr(value) if isinstance(self.value, str) else value}"

    def allows(self, row: dict[str, Any]) -> bool:
        found = row[self.column]
        found = found.replace(tzinfo=UTC) if isinstance(found, datetime) and found.tzinfo is None else found
        return found is not None and _COMPARISONS[self.comparison](found, self.value)


class _Shape(NamedTuple):
    """What a version's statements depend on."""

    part: str = "part"
    """The name of the partition column."""
    added: tuple[str, ...] = ()
    """The columns that were added, and not dropped since."""
    is_wide: bool = False
    """Whether the types of two columns were widened."""


class SparkWalk:
    """A table with a partition column, and random operations on it. Equal seeds do the same operations."""

    def __init__(self, spark: SparkSession, folder: Path, seed: int, properties: dict[str, str] | None = None) -> None:
        self.spark, self.folder, self.seed, self.random = spark, folder, seed, random.Random(seed)
        self.name = f"delta.`{folder}`"
        self.next_id = 0
        self.names = 0
        self.shape = _Shape()
        self.shapes: dict[int, _Shape] = {}
        """By version, for versions that end a step."""
        self.done: list[str] = []
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        shown = ", ".join(f"'{key}' = '{value}'" for key, value in (properties or FEATURES).items())
        self.sql(
            f"CREATE TABLE {self.name} (id BIGINT, part STRING, number INT, price DECIMAL(5,2), seen TIMESTAMP, "
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
        self.shapes[self.version()] = self.shape
        return chosen

    def version(self) -> int:
        return max(int(file.stem) for file in (self.folder / "_delta_log").glob("*.json") if file.stem.isdecimal())

    def condition(self) -> Condition:
        """A random condition. Its value is often one that the table has."""
        id = self.random.randrange(max(1, self.next_id))
        at = datetime(2024, 1, 1, microsecond=id % 1000 * 1000 + 999, tzinfo=UTC)
        values = {"id": id, "number": id % 90, "price": Decimal(f"{id % 99}.25"), "seen": at, "ratio": id / 4}
        column = self.random.choice([*values, self.shape.part])
        return Condition(column, self.random.choice(list(_COMPARISONS)), values.get(column, self.random.choice("abc")))

    def _rows(self, count: int) -> str:
        number, price = ("BIGINT", "DECIMAL(12,2)") if self.shape.is_wide else ("INT", "DECIMAL(5,2)")
        ids = range(self.next_id, self.next_id + count)
        self.next_id += count
        rows = [
            f"SELECT CAST({id} AS BIGINT) AS id, {self.random.choice(PARTS)} AS {self.shape.part}, "
            f"CAST({id % 90} AS {number}) AS number, "
            f"CAST({id % 99}.25 AS {price}) AS price, TIMESTAMP '2024-01-01 00:00:00.{id % 1000:03d}999' AS seen, "
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
        self.sql(f"UPDATE {self.name} SET number = number + 1, {self.shape.part} = 'b' WHERE {self._some()}")

    def merge(self) -> None:
        self.next_id = max(0, self.next_id - 3)
        part = self.shape.part
        self.sql(
            f"MERGE INTO {self.name} t USING ({self._rows(6)}) s ON t.id = s.id AND t.{part} = s.{part} "
            "WHEN MATCHED THEN UPDATE SET number = s.number + 1000 "
            f"WHEN NOT MATCHED THEN INSERT (id, {part}, number) VALUES (s.id, s.{part}, s.number)"
        )

    def overwrite(self) -> None:
        self.spark.sql(self._rows(9)).coalesce(1).write.format("delta").mode("overwrite").save(str(self.folder))

    def overwrite_partition(self) -> None:
        condition = f"{self.shape.part} = 'a'"
        rows = self.spark.sql(self._rows(5)).where(condition)
        rows.write.format("delta").mode("overwrite").option("replaceWhere", condition).save(str(self.folder))

    def _new_name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def add_column(self) -> None:
        name = self._new_name("extra")
        self.sql(f"ALTER TABLE {self.name} ADD COLUMN ({name} INT)")
        self.shape = self.shape._replace(added=(*self.shape.added, name))

    def rename_column(self) -> None:
        if not self.shape.added:
            return self.add_column()
        *others, old = self.shape.added
        new = self._new_name("renamed")
        self.sql(f"ALTER TABLE {self.name} RENAME COLUMN {old} TO {new}")
        self.shape = self.shape._replace(added=(*others, new))
        return None

    def rename_partition(self) -> None:
        new = self._new_name("part")
        self.sql(f"ALTER TABLE {self.name} RENAME COLUMN {self.shape.part} TO {new}")
        self.shape = self.shape._replace(part=new)

    def drop_column(self) -> None:
        if not self.shape.added:
            return self.append()
        *others, last = self.shape.added
        self.sql(f"ALTER TABLE {self.name} DROP COLUMN {last}")
        self.shape = self.shape._replace(added=tuple(others))
        return None

    def widen_type(self) -> None:
        if self.shape.is_wide:
            return self.append()
        self.sql(f"ALTER TABLE {self.name} ALTER COLUMN number TYPE BIGINT")
        self.sql(f"ALTER TABLE {self.name} ALTER COLUMN price TYPE DECIMAL(12,2)")
        self.shape = self.shape._replace(is_wide=True)
        return None

    def compact(self) -> None:
        self.sql(f"OPTIMIZE {self.name}")

    def purge(self) -> None:
        self.sql(f"REORG TABLE {self.name} APPLY (PURGE)")

    def restore(self) -> None:
        """Restore an earlier version, with the columns that it had."""
        # Delta cannot undo a change of types: files that were written since have the wider ones.
        versions = [at for at, shape in self.shapes.items() if shape.is_wide == self.shape.is_wide]
        if len(versions) < 2:
            return self.append()
        chosen = self.random.choice(versions[:-1])
        self.sql(f"RESTORE TABLE {self.name} TO VERSION AS OF {chosen}")
        self.shape = self.shapes[chosen]
        return None


PARTS = ("'a'", "'b'", "'c'", "CAST(NULL AS STRING)")
OPERATIONS: dict[str, tuple[Callable[[SparkWalk], None], int]] = {
    "append": (SparkWalk.append, 6),
    "delete": (SparkWalk.delete, 4),
    "update": (SparkWalk.update, 3),
    "merge": (SparkWalk.merge, 3),
    "overwrite": (SparkWalk.overwrite, 1),
    "overwrite_partition": (SparkWalk.overwrite_partition, 2),
    "add_column": (SparkWalk.add_column, 1),
    "rename_column": (SparkWalk.rename_column, 1),
    "rename_partition": (SparkWalk.rename_partition, 1),
    "drop_column": (SparkWalk.drop_column, 1),
    "widen_type": (SparkWalk.widen_type, 1),
    "compact": (SparkWalk.compact, 2),
    "purge": (SparkWalk.purge, 1),
    "restore": (SparkWalk.restore, 2),
}
