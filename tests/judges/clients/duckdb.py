"""DuckDB, on Iceberg tables. The extensions come from the environment, so nothing is downloaded."""

from __future__ import annotations

from typing import Any

from tests.conformance.ducks import connection
from tests.judges.steps import Place, main


class DuckDB:
    def __init__(self, at: Place) -> None:
        self.db = connection("avro", "httpfs", "iceberg")
        options = [
            "TYPE iceberg",
            f"ENDPOINT '{at.url}/iceberg'",
            "AUTHORIZATION_TYPE 'none'",
            # On local disk DuckDB creates no folders, so the server has to create the table's first.
            f"STAGE_CREATE_TABLES {str(not at.is_local).lower()}",
        ]
        if at.key:
            self.db.execute(
                f"CREATE SECRET (TYPE s3, KEY_ID '{at.key.access_key_id}', SECRET '{at.key.secret_access_key}', "
                f"REGION '{at.region}', ENDPOINT '{at.endpoint.removeprefix('http://')}', "
                "URL_STYLE 'path', USE_SSL false)"
            )
            options.append("ACCESS_DELEGATION_MODE 'none'")
        self.db.execute(f"ATTACH 'lake' AS lake ({', '.join(options)})")
        self.db.execute(f"CREATE SCHEMA IF NOT EXISTS lake.{at.namespace}")
        self.namespace, self.table = at.namespace, f"lake.{at.namespace}.duckdb"

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.db.execute(query).fetchall()
        return found

    def ids(self, at: str = "") -> list[int]:
        return [row[0] for row in self.rows(f"SELECT id FROM {self.table} {at} ORDER BY id")]

    def create(self) -> None:
        self.db.execute(f"CREATE TABLE {self.table} AS SELECT * FROM (VALUES (1, 'Oslo'), (2, 'Rome')) t(id, city)")

    def append(self) -> None:
        self.db.execute(f"INSERT INTO {self.table} VALUES (3, 'Kyiv')")

    def read(self) -> None:
        assert self.ids() == [1, 2, 3]

    def time_travel(self) -> None:
        snapshots = self.rows(f"SELECT snapshot_id FROM iceberg_snapshots({self.table}) ORDER BY sequence_number")
        assert self.ids(f"AT (VERSION => {snapshots[0][0]})") == [1, 2]

    def evolve(self) -> None:
        self.db.execute(f"ALTER TABLE {self.table} ADD COLUMN note VARCHAR")
        assert self.rows(f"SELECT note FROM {self.table}") == [(None,)] * 3

    def delete(self) -> None:
        self.db.execute(f"DELETE FROM {self.table} WHERE id = 2")
        assert self.ids() == [1, 3]

    def drop(self) -> None:
        self.db.execute(f"DROP TABLE {self.table}")
        assert not self.rows(f"SELECT 1 FROM duckdb_tables() WHERE schema_name = '{self.namespace}'")


if __name__ == "__main__":
    main(DuckDB)
