"""A client that reads as the Spark connector does: parts of files, deletion vectors by id, and refreshed URLs."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conformance.shares import ShareServer, share_server

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

CAPABILITIES = "responseformat=delta;readerfeatures=deletionvectors,columnmapping;includeendstreamaction=true"


class Connector:
    """Follows the rules of the Spark connector, and fails where it would fail."""

    def __init__(self, profile: Path, *, max_files: int | None = None) -> None:
        stated = json.loads(profile.read_text())
        self._endpoint = stated["endpoint"]
        headers = {
            "authorization": f"Bearer {stated['bearerToken']}",
            "delta-sharing-capabilities": CAPABILITIES,
        }
        self._api = httpx.Client(trust_env=False, timeout=60, headers=headers)
        self._files = httpx.Client(trust_env=False, timeout=60)
        self._max_files = max_files
        self.urls: dict[str, str] = {}
        self.refresh_token: str | None = None

    def close(self) -> None:
        self._api.close()
        self._files.close()

    def query(self, table: str, **body: Any) -> dict[str, str]:
        """The URLs of a table's files by id, from all pages."""
        found: dict[str, str] = {}
        page: dict[str, Any] = {} if self._max_files is None else {"maxFiles": self._max_files}
        while True:
            lines = self._lines(table, {**body, **page})
            end = lines.pop()["endStreamAction"]
            for line in lines[2:]:
                file = line["file"]
                action = file["deltaSingleAction"]["add"]
                found[file["id"]] = action["path"]
                if "deletionVector" in action:
                    assert action["deletionVector"]["storageType"] == "p"
                    found[file["deletionVectorFileId"]] = action["deletionVector"]["pathOrInlineDv"]
            self.refresh_token = end.get("refreshToken", self.refresh_token)
            if not end.get("nextPageToken"):
                return found
            page["pageToken"] = end["nextPageToken"]

    def _lines(self, table: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        url = f"{self._endpoint}/shares/fish/schemas/sea/tables/{table}/query"
        answer = self._api.post(url, json=body).raise_for_status()
        # The connector fails a query whose last line is missing although the server announced it.
        assert "includeendstreamaction=true" in answer.headers["delta-sharing-capabilities"]
        lines = [json.loads(line) for line in answer.text.splitlines()]
        assert "endStreamAction" in lines[-1]
        assert "errorMessage" not in lines[-1]["endStreamAction"]
        return lines

    def read(self, url: str) -> pa.Table:
        """Read a Parquet file in parts, from the end, as its readers do."""
        size = int(self._files.head(url).raise_for_status().headers["content-length"])
        tail = self._part(url, size - 8, size)
        footer = int.from_bytes(tail[:4], "little") + 8
        data = bytearray(size)
        for start, end in ((size - footer, size), (0, (size - footer) // 2), ((size - footer) // 2, size - footer)):
            data[start:end] = self._part(url, start, end)
        return pq.read_table(io.BytesIO(bytes(data)))

    def _part(self, url: str, start: int, end: int) -> bytes:
        answer = self._files.get(url, headers={"range": f"bytes={start}-{end - 1}"})
        assert answer.status_code == 206, "the connector takes 200 for an error"
        assert len(answer.content) == end - start
        return answer.content


@pytest.fixture
def shares(tmp_path: Path) -> Iterator[ShareServer]:
    with share_server(tmp_path, "--share-url-minutes", "1") as shares:
        yield shares


def append(shares: ShareServer, name: str, ids: range) -> None:
    deltalake.write_deltalake(str(shares.path_of(name)), pa.table({"id": list(ids)}), mode="append")


@pytest.mark.parametrize("max_files", [None, 2])
def test_urls_are_refreshed_in_the_middle_of_a_read(shares: ShareServer, max_files: int | None) -> None:
    for number in range(5):
        append(shares, "t", range(number * 10, number * 10 + 10))
    shares.offer("t")
    connector = Connector(shares.profile, max_files=max_files)
    asked = {} if max_files else {"includeRefreshToken": True}
    first = connector.query("t", **asked)
    ids = sorted(first)
    rows = [connector.read(first[id])["id"].to_pylist() for id in ids[:2]]
    append(shares, "t", range(900, 910))  # meanwhile the table changes
    if connector.refresh_token is not None:
        again = connector.query("t", refreshToken=connector.refresh_token, includeRefreshToken=True)
        assert sorted(again) == ids
        assert all(again[id] != first[id] for id in ids)
        first = again
    rows += [connector.read(first[id])["id"].to_pylist() for id in ids[2:]]
    assert sorted(id for part in rows for id in part) == list(range(50))
    assert len(connector.query("t", **asked)) == 6
    connector.close()


def test_deletion_vectors_are_files_with_ids(shares: ShareServer, spark: Any) -> None:
    folder = f"delta.`{shares.path_of('v')}`"
    for statement in (
        f"CREATE TABLE {folder} (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors'='true')",
        f"INSERT INTO {folder} SELECT id FROM range(0, 100, 1, 1)",
        f"DELETE FROM {folder} WHERE id < 10",
    ):
        spark.sql(statement).collect()
    shares.offer("v")
    connector = Connector(shares.profile)
    urls = connector.query("v")
    assert len(urls) == 2
    found = [httpx.get(url, trust_env=False).content for url in urls.values()]
    vectors = [data for data in found if not data.startswith(b"PAR1")]
    assert [data[0] for data in vectors] == [1], "a file of deletion vectors begins with its version"
    connector.close()
