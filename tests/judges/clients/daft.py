"""daft, on Iceberg tables, which it opens with PyIceberg."""

from __future__ import annotations

from typing import Any

import daft
from daft.catalog import Catalog
from daft.io import IOConfig, S3Config

from tests.judges.clients.pyiceberg import connect
from tests.judges.steps import MORE, ROWS, Place, main


class Daft:
    def __init__(self, at: Place) -> None:
        self.iceberg = connect(at)
        self.catalog = Catalog.from_iceberg(self.iceberg)
        self.catalog.create_namespace_if_not_exists(at.namespace)
        self.name = f"{at.namespace}.daft"
        self.config = None
        if at.key:
            s3 = S3Config(
                endpoint_url=at.endpoint,
                region_name=at.region,
                key_id=at.key.access_key_id,
                access_key=at.key.secret_access_key,
            )
            self.config = IOConfig(s3=s3)

    def ids(self, snapshot_id: int | None = None) -> list[int]:
        table: Any = self.iceberg.load_table(self.name)
        frame = daft.read_iceberg(table, snapshot_id=snapshot_id, io_config=self.config)
        return sorted(frame.to_pydict()["id"])

    def write(self, rows: dict[str, list[Any]]) -> None:
        daft.from_pydict(rows).write_iceberg(self.iceberg.load_table(self.name), io_config=self.config)

    def create(self) -> None:
        self.catalog.create_table(self.name, daft.from_pydict(ROWS).schema())
        self.write(ROWS)

    def append(self) -> None:
        self.write(MORE)

    def read(self) -> None:
        assert self.ids() == [1, 2, 3, 4]

    def time_travel(self) -> None:
        first = self.iceberg.load_table(self.name).history()[0]
        assert self.ids(first.snapshot_id) == [1, 2, 3]

    def drop(self) -> None:
        self.catalog.drop_table(self.name)
        assert not self.catalog.has_table(self.name)


if __name__ == "__main__":
    main(Daft)
