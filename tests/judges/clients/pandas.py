"""pandas, on Iceberg tables, which it opens with PyIceberg."""

from __future__ import annotations

import pandas as pd

from tests.judges.clients.pyiceberg import connect, settings
from tests.judges.steps import MORE, ROWS, Place, main


class Pandas:
    def __init__(self, at: Place) -> None:
        self.catalog = connect(at)
        self.catalog.create_namespace_if_not_exists(at.namespace)
        self.name = f"{at.namespace}.pandas"
        self.settings = settings(at)

    def ids(self, snapshot_id: int | None = None) -> list[int]:
        frame = pd.read_iceberg(self.name, catalog_properties=self.settings, snapshot_id=snapshot_id)
        return sorted(frame["id"])

    def create(self) -> None:
        pd.DataFrame(ROWS).to_iceberg(self.name, catalog_properties=self.settings)

    def append(self) -> None:
        pd.DataFrame(MORE).to_iceberg(self.name, catalog_properties=self.settings, append=True)

    def read(self) -> None:
        assert self.ids() == [1, 2, 3, 4]

    def time_travel(self) -> None:
        first = self.catalog.load_table(self.name).history()[0]
        assert self.ids(first.snapshot_id) == [1, 2, 3]


if __name__ == "__main__":
    main(Pandas)
