"""Polars, on Iceberg tables, which it opens with PyIceberg."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from tests.judges.clients.pyiceberg import connect
from tests.judges.steps import MORE, ROWS, Place, main


class Polars:
    def __init__(self, at: Place) -> None:
        self.catalog = connect(at)
        self.catalog.create_namespace_if_not_exists(at.namespace)
        self.name = (at.namespace, "polars")

    def frame(self, snapshot_id: int | None = None) -> pl.DataFrame:
        table = self.catalog.load_table(self.name)
        # Polars uses PyIceberg for the metadata only: it has to be told how to reach the data files.
        storage = {name: value for name, value in table.io.properties.items() if name.startswith("s3.")}
        return pl.scan_iceberg(table, snapshot_id=snapshot_id, storage_options=storage).sort("id").collect()

    def create(self) -> None:
        table = self.catalog.create_table(self.name, schema=pa.table(ROWS).schema)
        pl.DataFrame(ROWS).write_iceberg(table, mode="append")

    def append(self) -> None:
        pl.DataFrame(MORE).write_iceberg(self.catalog.load_table(self.name), mode="append")

    def read(self) -> None:
        assert self.frame()["id"].to_list() == [1, 2, 3, 4]

    def time_travel(self) -> None:
        first = self.catalog.load_table(self.name).history()[0]
        assert self.frame(first.snapshot_id)["id"].to_list() == [1, 2, 3]


if __name__ == "__main__":
    main(Polars)
