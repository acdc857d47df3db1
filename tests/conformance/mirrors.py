"""A managed Delta table that repeats the commits of a plain one, which any Delta writer can write.

The writers of the field either cannot write managed tables, or cannot run every operation on them. So they write a
plain table, and its files and actions are committed to the managed one, version by version.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import httpx

from moorage.storage.s3 import S3Storage
from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import DeltaClient, Staged, ok

ON = {"delta.universalFormat.enabledFormats": "iceberg"}
_UNSET = {"delta.enableDeletionVectors": None, "delta.checkpointPolicy": None}
"""Properties that the plain table decides."""
_MANAGED_READER = ("catalogManaged", "vacuumProtocolCheck")
_MANAGED_WRITER = (*_MANAGED_READER, "inCommitTimestamp")


class Mirror:
    """The managed table `lake.sea.<name>`, at the same version as the plain table in a folder."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        plain: Path,
        name: str = "t",
        properties: Any = None,
        store: S3Storage | None = None,
    ) -> None:
        self.delta = DeltaClient(http)
        self.store = store
        self.plain, self.name = plain, name
        self.properties = ON if properties is None else properties
        self.version = -1
        self.start_ms = int(time.time() * 1000) - 3_600_000
        self.table: Staged

    async def follow(self) -> int:
        """Commit every version of the plain table that the managed one does not have. Returns the newest version."""
        while (log := self.plain / "_delta_log" / f"{self.version + 1:020}.json").exists():
            self.version += 1
            actions = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
            await self._commit(actions)
        return self.version

    async def _commit(self, actions: list[dict[str, Any]]) -> None:
        if self.version == 0:
            self.table = await self.delta.stage(self.name)
            if self.store is not None:
                self.table.folder = self.plain.with_name(f"{self.name}-to-upload")
        translated = [self._info(), *(each for action in actions if (each := self._translated(action)) is not None)]
        self._copy_files()
        if self.version == 0:
            write.write_first(self.table.folder, *translated)
            await self._upload()
            stated = {**_UNSET, **self.properties, "delta.lastCommitTimestamp": str(self.start_ms)}
            ok(await self.delta.create(self.table, properties=stated))
            return
        info = self.table.stage(self.version, *translated, timestamp=self.start_ms + self.version)
        await self._upload()
        ok(await self.delta.commit(self.table, info))

    async def _upload(self) -> None:
        """Upload what is written, if the table is in an object store."""
        if self.store is None:
            return
        for file in self.table.folder.rglob("*"):
            if file.is_file():
                path = str(file.relative_to(self.table.folder))
                await self.store.put_new(f"{self.table.location}/", path, file.read_bytes())

    def _info(self) -> dict[str, Any]:
        return write.commit_info(self.start_ms + self.version, "CREATE TABLE" if self.version == 0 else "WRITE")

    def _translated(self, action: dict[str, Any]) -> dict[str, Any] | None:
        match action:
            case {"commitInfo": _}:
                return None
            case {"protocol": protocol}:
                readers = {*protocol.get("readerFeatures", ()), *_MANAGED_READER, *_legacy(protocol)}
                writers = {*protocol.get("writerFeatures", ()), *_MANAGED_WRITER, *_legacy(protocol), *readers}
                features = {"readerFeatures": sorted(readers), "writerFeatures": sorted(writers)}
                return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}
            case {"metaData": metadata}:
                fixed = write.configuration(self.table.id, **_UNSET, **self.properties)
                return {"metaData": {**metadata, "configuration": {**metadata["configuration"], **fixed}}}
        return action

    def _copy_files(self) -> None:
        for file in self.plain.rglob("*"):
            target = self.table.folder / file.relative_to(self.plain)
            if file.is_file() and "_delta_log" not in file.parts and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, target)


def _legacy(protocol: dict[str, Any]) -> tuple[str, ...]:
    """The features that a protocol without a list of features implies, as far as readers need them."""
    return ("columnMapping",) if protocol["minReaderVersion"] == 2 else ()


def as_rows(columns: list[str], rows: Any) -> list[str]:
    """Rows in a form that is equal for every reader: sorted, with columns in the order of their names."""
    order = sorted(range(len(columns)), key=lambda at: columns[at])
    return sorted(str([(columns[at], row[at]) for at in order]) for row in rows)
