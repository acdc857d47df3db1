"""Polars' Unity catalog client lists and describes tables of every format.

Its enums are closed: one unknown format or table type, or a null where it expects text, makes the whole page fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import lance
import pyarrow as pa
import pytest

from moorage.client.lance import Lake
from moorage.testing.server import ServerProcess

pytestmark = pytest.mark.filterwarnings("ignore:.*unstable")
polars = pytest.importorskip("polars", reason="polars is one of the clients that make setup installs")

IN_SEA = {"catalog_name": "lake", "schema_name": "sea"}
ID = {"name": "id", "type_text": "bigint"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("polars") / "data") as server:
        yield server


@pytest.fixture(scope="module")
def catalog(server: ServerProcess) -> Any:
    with httpx.Client(base_url=server.url, trust_env=False) as http:

        def post(path: str, body: dict[str, Any]) -> None:
            http.post(path, json=body).raise_for_status()

        unity = "/api/2.1/unity-catalog"
        post(f"{unity}/catalogs", {"name": "lake"})
        post(f"{unity}/schemas", {"name": "sea", "catalog_name": "lake"})
        files = {"table_type": "EXTERNAL", "data_source_format": "PARQUET", "storage_location": "file:///lakes/files"}
        post(f"{unity}/tables", {"name": "files", **IN_SEA, **files, "columns": [ID]})
        reads = {"dependencies": [{"table": {"table_full_name": "lake.sea.files"}}]}
        for name, kind in (("metric", "METRIC_VIEW"), ("view", "VIEW")):
            text = {"table_type": kind, "view_definition": "x", "view_dependencies": reads}
            post(f"{unity}/tables", {"name": name, **IN_SEA, **text})
        field = {"id": 1, "name": "id", "type": "long", "required": False}
        schema = {"type": "struct", "fields": [field]}
        post("/iceberg/v1/lake/namespaces/sea/tables", {"name": "iceberg", "schema": schema})
    rows = pa.table({"id": [1, 2]})
    lance.write_dataset(rows, namespace_client=Lake(server.url), table_id=["lake", "sea", "lance"])
    return polars.Catalog(server.url, bearer_token=None, require_https=False)


def test_a_schema_with_tables_of_every_format_is_listed(catalog: Any) -> None:
    assert [each.name for each in catalog.list_namespaces("lake")] == ["sea"]
    tables = catalog.list_tables("lake", "sea")
    assert [(each.name, each.table_type, each.data_source_format) for each in tables] == [
        ("files", "EXTERNAL", "PARQUET"),
        ("iceberg", "MANAGED", None),
        ("lance", "MANAGED", None),
        ("metric", "VIEW", None),
        ("view", "VIEW", None),
    ]


@pytest.mark.parametrize("name", ["files", "iceberg"])
def test_the_columns_of_a_table_are_described(catalog: Any, name: str) -> None:
    table = catalog.get_table_info("lake", "sea", name)
    assert table.get_polars_schema() == polars.Schema({"id": polars.Int64})
