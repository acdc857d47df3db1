"""Three engines write to one Iceberg table in turn, and all of them read the same rows at every version."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck
from tests.conformance.lakes import attach_spark, lake_server, pyiceberg_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

Rows = list[tuple[Any, ...]]
SPARK = "agreement.sea.t"
DUCK = "lake.sea.t"


class Engines:
    """Spark, DuckDB and PyIceberg, for one table, `sea.t`."""

    def __init__(self, spark: SparkSession, db: Any, server: ServerProcess) -> None:
        self._spark, self._db, self._server = spark, db, server

    def spark(self, statement: str) -> Rows:
        return [tuple(row) for row in self._spark.sql(statement).collect()]

    def duck(self, statement: str) -> Rows:
        found: Rows = self._db.execute(statement).fetchall()
        return found

    @property
    def table(self) -> Any:
        return pyiceberg_of(self._server).load_table(("sea", "t"))

    def rows(self, snapshot: int) -> Rows:
        """The rows that all three engines read at this version."""
        arrow = self.table.scan(snapshot_id=snapshot, selected_fields=("id", "city")).to_arrow()
        readings = [
            sorted(zip(arrow["id"].to_pylist(), arrow["city"].to_pylist(), strict=True)),
            self.spark(f"SELECT id, city FROM {SPARK} VERSION AS OF {snapshot} ORDER BY id"),
            self.duck(f"SELECT id, city FROM {DUCK} AT (VERSION => {snapshot}) ORDER BY id"),
        ]
        assert readings[0] == readings[1] == readings[2]
        return readings[0]


@pytest.fixture
def engines(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Engines]:
    with lake_server(tmp_path_factory.mktemp("agreement") / "data") as server, duck("avro", "httpfs", "iceberg") as db:
        attach_spark(spark, server, "agreement")
        db.execute(f"ATTACH 'lake' (TYPE iceberg, ENDPOINT '{server.url}/iceberg', AUTHORIZATION_TYPE 'none')")
        yield Engines(spark, db, server)


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
def test_three_engines_write_in_turn_and_read_the_same_rows(engines: Engines) -> None:
    def added(*ids: int) -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int64()), "city": [f"py{id}" for id in ids]})

    engines.spark("CREATE NAMESPACE agreement.sea")
    modes = ", ".join(f"'write.{verb}.mode' = 'merge-on-read'" for verb in ("merge", "update", "delete"))
    engines.spark(f"CREATE TABLE {SPARK} (id BIGINT, city STRING) USING iceberg TBLPROPERTIES ({modes})")
    steps: list[tuple[Callable[[], Any], Rows]] = [
        (
            lambda: engines.spark(f"INSERT INTO {SPARK} VALUES (1, 'a'), (2, 'b'), (3, 'c')"),
            [(1, "a"), (2, "b"), (3, "c")],
        ),
        (lambda: engines.duck(f"INSERT INTO {DUCK} VALUES (4, 'd')"), [(1, "a"), (2, "b"), (3, "c"), (4, "d")]),
        (lambda: engines.spark(f"DELETE FROM {SPARK} WHERE id = 2"), [(1, "a"), (3, "c"), (4, "d")]),
        (lambda: engines.table.append(added(5)), [(1, "a"), (3, "c"), (4, "d"), (5, "py5")]),
        (lambda: engines.duck(f"DELETE FROM {DUCK} WHERE id = 4"), [(1, "a"), (3, "c"), (5, "py5")]),
        (
            lambda: engines.spark(f"UPDATE {SPARK} SET city = 'z' WHERE id IN (1, 5)"),
            [(1, "z"), (3, "c"), (5, "z")],
        ),
        (lambda: engines.table.overwrite(added(6), "id = 3"), [(1, "z"), (5, "z"), (6, "py6")]),
    ]
    seen: dict[int, Rows] = {}
    for write, rows in steps:
        write()
        seen[engines.table.metadata.current_snapshot_id] = rows
    for snapshot, rows in seen.items():
        assert engines.rows(snapshot) == rows
    assert len(seen) == len(steps)
