"""Managed Delta tables that Spark wrote.

Unity's connector for Spark cannot be installed here, so Spark writes a plain table at the location of a staging table,
and each of its commits is then proposed to the catalog as the connector would propose it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from moorage.testing import delta_writer as write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNITY = "/api/2.1/unity-catalog"
CATALOG, SCHEMA = "lake", "sea"
DELTA = f"{UNITY}/delta/v1/catalogs/{CATALOG}/schemas/{SCHEMA}"
FEATURES = ("v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "inCommitTimestamp")
MANAGED = "catalogManaged"
CATALOG_ONLY = (MANAGED, "vacuumProtocolCheck")
"""What deltalake does not read."""

Action = dict[str, Any]


class ManagedTable:
    """A managed table and its folder."""

    def __init__(self, http: httpx.Client, name: str, id: str, location: str) -> None:
        self.http, self.name, self.id, self.location = http, name, id, location
        self.folder = write.folder_of(location)
        self.full_name = f"{CATALOG}.{SCHEMA}.{name}"
        self._proposed = 0

    @property
    def path(self) -> str:
        """The table for Spark's SQL, as long as it is not managed yet."""
        return f"delta.`{self.folder}`"

    @property
    def log(self) -> Path:
        return self.folder / "_delta_log"

    def adopt(self) -> ManagedTable:
        """Make the catalog the commit authority of the table that Spark wrote at the location."""
        for file in self.log.glob("*.crc"):
            file.unlink()
        for file in (*self.log.glob(".*.crc"), *self.log.glob("*checkpoint*"), *self.log.glob("_last*")):
            shutil.rmtree(file) if file.is_dir() else file.unlink()
        for file in self.log.glob("*.json"):
            self._manage(file)
        later = sorted(file for file in self.log.glob("*.json") if int(file.stem) > 0)
        staged = [(int(file.stem), file.read_bytes()) for file in later]
        for file in later:
            file.unlink()
        self._create()
        for version, data in staged:
            self.propose(version, data)
        return self

    def _manage(self, file: Path) -> None:
        """Write protocol and metadata as Spark writes those of a managed table."""
        actions = read_actions(file)
        for action in actions:
            for names in ("readerFeatures", "writerFeatures") if "protocol" in action else ():
                action["protocol"][names] = sorted({*action["protocol"][names], MANAGED})
            if "metaData" in action:
                action["metaData"]["configuration"]["io.unitycatalog.tableId"] = self.id
        file.write_bytes(write.lines(*actions))

    def _create(self) -> None:
        actions = read_actions(self.log / f"{0:020}.json")
        protocol = next(action["protocol"] for action in actions if "protocol" in action)
        metadata = next(action["metaData"] for action in actions if "metaData" in action)
        body = {
            "name": self.name,
            "location": self.location,
            "table-type": "MANAGED",
            "columns": to_wire(json.loads(metadata["schemaString"])),
            "partition-columns": metadata["partitionColumns"],
            "protocol": {kebab(key): value for key, value in protocol.items()},
            "properties": metadata["configuration"],
            "last-commit-timestamp-ms": actions[0]["commitInfo"]["inCommitTimestamp"],
        }
        domains = {a["domainMetadata"]["domain"]: a["domainMetadata"] for a in actions if "domainMetadata" in a}
        if domains:
            body["domain-metadata"] = {
                name: to_wire(json.loads(domain["configuration"])) for name, domain in domains.items()
            }
        answer = self.http.post(f"{DELTA}/tables", json=body)
        assert answer.is_success, answer.text

    def propose(self, version: int, data: bytes) -> None:
        self.commit(self.stage(version, data))

    def stage(self, version: int, data: bytes) -> Action:
        """Write a staged commit, and return what a request states about it."""
        at_ms = json.loads(data.splitlines()[0])["commitInfo"]["inCommitTimestamp"]
        return write.stage_bytes(self.folder, version, at_ms, data)

    def commit(self, info: Action) -> None:
        answer = self.http.post(
            f"{UNITY}/delta/commit", json={"table_id": self.id, "table_uri": self.location, "commit_info": info}
        )
        assert answer.is_success, answer.text

    def commits(self) -> dict[int, list[Action]]:
        """All ratified commits, from their staged files and 0.json."""
        found = {0: read_actions(self.log / f"{0:020}.json")}
        table, start = {"table_id": self.id, "table_uri": self.location}, 0
        # A response has a limited number of commits.
        while page := self.http.get(f"{UNITY}/delta/commits", params={**table, "start_version": start}).json()[
            "commits"
        ]:
            for commit in page:
                found[commit["version"]] = read_actions(self.log / "_staged_commits" / commit["file_name"])
            start = max(commit["version"] for commit in page) + 1
        for file in self.log.glob("*.json"):
            found.setdefault(int(file.stem), read_actions(file))
        return dict(sorted(found.items()))

    def version(self) -> int:
        shown: int = self.http.get(f"{DELTA}/tables/{self.name}").json()["latest-table-version"]
        return shown

    def files(self) -> dict[str, Action]:
        """The active files of the newest version, by path."""
        active: dict[str, Action] = {}
        for actions in self.commits().values():
            for action in actions:
                if "remove" in action:
                    active.pop(action["remove"]["path"], None)
            for action in actions:
                if "add" in action:
                    active[action["add"]["path"]] = action["add"]
        return active

    def plain_copy(self, folder: Path) -> str:
        """The same table without the features of managed tables, for readers that no catalog serves."""
        folder.mkdir(parents=True)
        for entry in self.folder.iterdir():
            if entry.name != "_delta_log":
                (folder / entry.name).symlink_to(entry)
        (folder / "_delta_log").mkdir()
        for version, actions in self.commits().items():
            for action in actions:
                if "protocol" in action:
                    for names in ("readerFeatures", "writerFeatures"):
                        found = action["protocol"][names]
                        action["protocol"][names] = [name for name in found if name not in CATALOG_ONLY]
            (folder / "_delta_log" / f"{version:020}.json").write_bytes(write.lines(*actions))
        return f"delta.`{folder}`"

    def compact(self, **options: Any) -> dict[str, Any]:
        """Request a compaction that does not wait for writers, and return its job."""
        where = f"/api/moorage/v1/catalogs/{CATALOG}/namespaces/{SCHEMA}/tables/{self.name}/jobs"
        args = {"beside_writers": True, **options}
        return self._job(self.http.post(where, json={"kind": "compact", "args": args}))

    def compact_in_quiet(self) -> dict[str, Any]:
        """Request a compaction as Unity's clients do, and return its job."""
        return self._job(self.http.post(f"{UNITY}/tables/{self.full_name}:compact"))

    @staticmethod
    def _job(answer: httpx.Response) -> dict[str, Any]:
        assert answer.status_code == 202, answer.text
        job: dict[str, Any] = answer.json()
        return job


def stage(http: httpx.Client, name: str) -> ManagedTable:
    """Reserve an id and a location for a table."""
    staged = http.post(f"{DELTA}/staging-tables", json={"name": name}).raise_for_status().json()
    return ManagedTable(http, name, staged["table-id"], staged["location"])


def properties(**more: str) -> str:
    """The table properties that every managed table needs, in SQL."""
    fixed = {f"delta.feature.{name}": "supported" for name in FEATURES}
    fixed |= {
        "delta.enableInCommitTimestamps": "true",
        "delta.checkpointPolicy": "v2",
        "delta.enableDeletionVectors": "true",
        "delta.checkpoint.writeStatsAsJson": "true",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpointInterval": "100000",
    }
    return ", ".join(f"'{key}' = '{value}'" for key, value in (fixed | more).items())


def read_actions(file: Path) -> list[Action]:
    return [json.loads(line) for line in file.read_bytes().splitlines() if line]


def to_wire(document: Any) -> Any:
    """A document of the log in the spelling of the API."""
    names = {"elementType", "containsNull", "keyType", "valueType", "valueContainsNull", "rowIdHighWaterMark"}
    if isinstance(document, dict):
        return {kebab(key) if key in names else key: to_wire(value) for key, value in document.items()}
    return [to_wire(each) for each in document] if isinstance(document, list) else document


def kebab(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


def rows_of(spark: SparkSession, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark.sql(f"SELECT {columns} FROM {table}").collect()), key=repr)


def small_files(
    spark: SparkSession,
    http: httpx.Client,
    table: str | ManagedTable,
    *,
    ddl: str = "id BIGINT, city STRING",
    columns: str = "",
    rows: str = "id, concat('c', id)",
    rest: str = "",
    times: int = 4,
    **more: str,
) -> ManagedTable:
    """A table that Spark wrote in several small files, and that the catalog does not manage yet."""
    table = table if isinstance(table, ManagedTable) else stage(http, table)
    spark.sql(f"CREATE TABLE {table.path} ({ddl}) USING delta {rest} TBLPROPERTIES ({properties(**more)})")
    for start in range(times):
        spark.range(start * 10, start * 10 + 10, numPartitions=2).createOrReplaceTempView("new_rows")
        into = f"({columns})" if columns else ""
        spark.sql(f"INSERT INTO {table.path} {into} SELECT {rows} FROM new_rows")
    return table
