"""LanceDB, on Lance tables."""

from __future__ import annotations

from typing import Any

import lancedb
import pyarrow as pa

from tests.judges.clients.pylance import storage_options
from tests.judges.steps import MORE, ROWS, Place, main


class LanceDB:
    def __init__(self, at: Place) -> None:
        self.options = storage_options(at)
        self.db = lancedb.connect_namespace("rest", {"uri": f"{at.url}/lance"}, storage_options=self.options)
        self.space = ["lake", at.namespace]
        self.db.create_namespace(self.space, mode="exist_ok")

    def open(self) -> Any:
        return self.db.open_table("lancedb", namespace_path=self.space, storage_options=self.options)

    def ids(self) -> list[int]:
        return sorted(self.open().to_arrow()["id"].to_pylist())

    def create(self) -> None:
        self.db.create_table("lancedb", pa.table(ROWS), namespace_path=self.space)

    def append(self) -> None:
        self.open().add(pa.table(MORE))

    def read(self) -> None:
        assert self.ids() == [1, 2, 3, 4]

    def time_travel(self) -> None:
        table = self.open()
        table.checkout(1)
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]

    def evolve(self) -> None:
        self.open().add_columns({"double": "id * 2"})
        assert sorted(self.open().to_arrow()["double"].to_pylist()) == [2, 4, 6, 8]

    def delete(self) -> None:
        self.open().delete("id = 2")
        assert self.ids() == [1, 3, 4]

    def drop(self) -> None:
        self.db.drop_table("lancedb", namespace_path=self.space)
        assert self.db.list_tables(namespace_path=self.space).tables == []


if __name__ == "__main__":
    main(LanceDB)
