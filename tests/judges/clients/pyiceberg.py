"""PyIceberg, on Iceberg tables."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.types import StringType

from tests.judges.steps import MORE, ROWS, Place, main


def settings(at: Place) -> dict[str, str]:
    """Return the properties with which PyIceberg, and every client built on it, finds the catalog."""
    catalog = {"type": "rest", "uri": f"{at.url}/iceberg", "warehouse": "lake"}
    if at.key is None:
        return catalog
    return {
        **catalog,
        # By default PyIceberg requests vended credentials, which would replace these.
        "header.X-Iceberg-Access-Delegation": "",
        "s3.endpoint": at.endpoint,
        "s3.region": at.region,
        "s3.access-key-id": at.key.access_key_id,
        "s3.secret-access-key": at.key.secret_access_key,
    }


def connect(at: Place) -> Catalog:
    return load_catalog("lake", **settings(at))


class PyIceberg:
    def __init__(self, at: Place) -> None:
        self.catalog = connect(at)
        self.catalog.create_namespace_if_not_exists(at.namespace)
        self.name = (at.namespace, "pyiceberg")

    def ids(self, snapshot_id: int | None = None) -> list[int]:
        rows = self.catalog.load_table(self.name).scan(snapshot_id=snapshot_id).to_arrow()
        return sorted(rows["id"].to_pylist())

    def create(self) -> None:
        self.catalog.create_table(self.name, schema=pa.table(ROWS).schema).append(pa.table(ROWS))

    def append(self) -> None:
        self.catalog.load_table(self.name).append(pa.table(MORE))

    def read(self) -> None:
        assert self.ids() == [1, 2, 3, 4]

    def time_travel(self) -> None:
        first = self.catalog.load_table(self.name).history()[0]
        assert self.ids(first.snapshot_id) == [1, 2, 3]

    def evolve(self) -> None:
        with self.catalog.load_table(self.name).update_schema() as update:
            update.add_column("note", StringType())
        assert self.catalog.load_table(self.name).scan().to_arrow()["note"].to_pylist() == [None] * 4

    def delete(self) -> None:
        self.catalog.load_table(self.name).delete("id = 2")
        assert self.ids() == [1, 3, 4]

    def drop(self) -> None:
        self.catalog.drop_table(self.name)
        assert not self.catalog.table_exists(self.name)


if __name__ == "__main__":
    main(PyIceberg)
