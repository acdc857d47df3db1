"""pylance, on Lance tables."""

from __future__ import annotations

from typing import Any

import lance
import lance_namespace
import pyarrow as pa
from lance_namespace import CreateNamespaceRequest, DropTableRequest, TableExistsRequest

from tests.judges.steps import MORE, ROWS, Place, main


def storage_options(at: Place) -> dict[str, str] | None:
    """Return the options of Lance for the client's own key."""
    if at.key is None:
        return None
    return {
        "aws_endpoint": at.endpoint,
        "aws_region": at.region,
        "aws_access_key_id": at.key.access_key_id,
        "aws_secret_access_key": at.key.secret_access_key,
        "allow_http": "true",
    }


class Pylance:
    def __init__(self, at: Place) -> None:
        self.lake = lance_namespace.connect("rest", {"uri": f"{at.url}/lance"})
        self.lake.create_namespace(CreateNamespaceRequest(id=["lake", at.namespace], mode="exist_ok"))
        self.id = ["lake", at.namespace, "pylance"]
        options = storage_options(at)
        self.table: dict[str, Any] = {"namespace_client": self.lake, "table_id": self.id}
        if options:
            self.table["storage_options"] = options

    def ids(self, version: int | None = None) -> list[int]:
        rows = lance.dataset(version=version, **self.table).to_table()
        return sorted(rows["id"].to_pylist())

    def create(self) -> None:
        lance.write_dataset(pa.table(ROWS), **self.table)

    def append(self) -> None:
        lance.write_dataset(pa.table(MORE), mode="append", **self.table)

    def read(self) -> None:
        assert self.ids() == [1, 2, 3, 4]

    def time_travel(self) -> None:
        assert self.ids(version=1) == [1, 2, 3]

    def evolve(self) -> None:
        lance.dataset(**self.table).add_columns({"double": "id * 2"})
        assert sorted(lance.dataset(**self.table).to_table()["double"].to_pylist()) == [2, 4, 6, 8]

    def delete(self) -> None:
        lance.dataset(**self.table).delete("id = 2")
        assert self.ids() == [1, 3, 4]

    def drop(self) -> None:
        self.lake.drop_table(DropTableRequest(id=self.id))
        try:
            self.lake.table_exists(TableExistsRequest(id=self.id))
        except lance_namespace.TableNotFoundError:
            return
        raise AssertionError("the table still exists")


if __name__ == "__main__":
    main(Pylance)
