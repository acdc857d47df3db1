"""A real client reads the sample lake of `moorage up`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from moorage.cli import sample_delta
from moorage.testing import delta_writer
from moorage.testing.server import ServerProcess
from tests.conformance.ducks import duck


def test_duckdb_reads_the_published_log_of_the_sample_delta_table(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", verb="up") as server:
        found = published_table(server.url)
        folder, version = delta_writer.folder_of(found["metadata"]["location"]), found["latest-table-version"]
        with duck("delta") as db:
            # A catalog-managed table is read up to the version that the catalog names, and no further.
            db.execute(f"ATTACH '{folder}' AS voyages (TYPE delta, MAX_CATALOG_VERSION {version})")
            read = db.execute("SELECT boat, port, departed, miles FROM voyages").fetchall()
    added = [row for rows in sample_delta.VOYAGES for row in zip(*rows.values(), strict=True)]
    assert sorted(read) == sorted(added)


def published_table(url: str) -> dict[str, Any]:
    """The table as the Delta API shows it, once the server has published both of its versions."""
    deadline = time.monotonic() + 60
    with httpx.Client(base_url=url, trust_env=False) as http:
        while time.monotonic() < deadline:
            answer = http.get(f"{sample_delta.SCHEMA}/tables/{sample_delta.NAME}")
            if answer.is_success:
                found: dict[str, Any] = answer.json()
                if delta_writer.published(delta_writer.folder_of(found["metadata"]["location"])) == [0, 1]:
                    return found
            time.sleep(0.05)
    raise AssertionError("the sample table was not published")
