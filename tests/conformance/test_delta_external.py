"""External Delta tables: written by one client, registered here, and read by others at the location we return."""

from __future__ import annotations

from pathlib import Path

import deltalake
import httpx
import pyarrow as pa

from moorage.testing import delta_writer as write
from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck

UNITY = "/api/2.1/unity-catalog"
TABLE = {"name": "sales", "catalog_name": "lake", "schema_name": "sea", "table_type": "EXTERNAL"}


def test_deltalake_and_duckdb_read_a_registered_table(tmp_path: Path) -> None:
    lakes = tmp_path / "lakes"
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "port": ["Bremen", "Genoa", None]})
    deltalake.write_deltalake(lakes / "sales", rows.slice(0, 2), partition_by=["port"])
    deltalake.write_deltalake(lakes / "sales", rows.slice(2), mode="append")
    with (
        ServerProcess(tmp_path / "data", flags=("--external-folder", str(lakes))) as server,
        httpx.Client(base_url=f"{server.url}{UNITY}", trust_env=False, timeout=60) as http,
    ):
        http.post("/catalogs", json={"name": "lake"}).raise_for_status()
        http.post("/schemas", json={"name": "sea", "catalog_name": "lake"}).raise_for_status()
        at = {"data_source_format": "DELTA", "storage_location": (lakes / "sales").as_uri()}
        http.post("/tables", json={**TABLE, **at}).raise_for_status()
        shown = http.get("/tables/lake.sea.sales").json()
    columns = [(column["name"], column["type_text"], column["partition_index"]) for column in shown["columns"]]
    assert columns == [("id", "bigint", None), ("port", "string", 0)]

    found = deltalake.DeltaTable(shown["storage_location"])
    assert sorted(found.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 3]
    with duck("delta") as db:
        folder = write.folder_of(shown["storage_location"])
        read = db.execute("select id, port from delta_scan(?) order by id", [str(folder)]).fetchall()
    assert read == [(1, "Bremen"), (2, "Genoa"), (3, None)]
