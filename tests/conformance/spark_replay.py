"""Replays the requests of a real Spark with Delta 4.4 to a Unity server, and writes the files that Spark wrote.

The capture (`spark_trace.jsonl`) contains requests and responses, but not the files. So the replayer creates
each `0.json` and staged commit from what the request states: its protocol and metadata, its timestamp, and
exactly its size. Ids are those that our server assigned, and times are moved to today.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from moorage.testing import delta_writer as write

TRACE = Path(__file__).with_name("spark_trace.jsonl")
UNITY = "/api/2.1/unity-catalog"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
MILLIS = re.compile(r"\b17947\d{8}\b")
CAPTURED_MS = 1794729083720
READER_FEATURES = ("catalogManaged", "columnMapping", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck")
DERIVED = ("delta.feature.", "delta.minReaderVersion", "delta.minWriterVersion", "delta.last", "clusteringColumns")

Json = dict[str, Any]


def exchanges() -> list[Json]:
    """Every exchange of the capture, in order, with repeated bodies filled in."""
    found: dict[int, Json] = {}
    statement = ""
    for line in TRACE.read_text().splitlines():
        one = json.loads(line)
        statement = one.setdefault("statement", statement)
        for part in ("request", "response"):
            body = one.get(part)
            if isinstance(body, dict) and "same_as" in body:
                one[part] = found[body["same_as"]].get(part)
        found[one["n"]] = one
    return list(found.values())


class Table:
    """The current state of the log of one table."""

    def __init__(self, folder: Path, protocol: Json, metadata: Json) -> None:
        self.folder, self.protocol, self.metadata = folder, protocol, metadata


class Replayer:
    def __init__(self, http: httpx.Client, warehouse: Path, elsewhere: Path) -> None:
        self._http, self._warehouse, self._elsewhere = http, warehouse, elsewhere
        self._ids: dict[str, str] = {}
        self._tables: dict[str, Table] = {}
        self._shift_ms = int(time.time() * 1000) - 3_600_000 - CAPTURED_MS

    def send(self, one: Json) -> httpx.Response:
        """Write the files of a captured request, and send it with our ids, folders and times."""
        body = self._translated(one.get("request"))
        self._write_files(one["verb"], one["path"], body)
        content = None if body is None else json.dumps(body)
        answer = self._http.request(one["verb"], UNITY + self._translated(one["path"]), content=content)
        if answer.status_code == one["status"] == 200:
            self._publish(one["path"], body)
            self._record_ids(one.get("response"), answer.json())
        return answer

    def _translated(self, captured: Any) -> Any:
        """A captured value with our ids, folders and times."""
        text = json.dumps(captured).replace("/WAREHOUSE/ext_", f"{self._elsewhere}/ext_")
        text = text.replace("/WAREHOUSE", str(self._warehouse))
        text = UUID.sub(lambda found: self._ids.get(found[0], found[0]), text)
        return json.loads(MILLIS.sub(lambda found: str(int(found[0]) + self._shift_ms), text))

    def _record_ids(self, captured: Any, ours: Any) -> None:
        for theirs, mine in _pairs(captured, ours):
            if isinstance(theirs, str) and isinstance(mine, str) and UUID.fullmatch(theirs) and UUID.fullmatch(mine):
                self._ids.setdefault(theirs, mine)

    # --- files ---------------------------------------------------------------------------------

    def _write_files(self, verb: str, path: str, body: Json | None) -> None:
        if verb != "POST" or body is None:
            return
        if path.endswith("/tables") and "MANAGED" in (body.get("table-type"), body.get("table_type")):
            self._write_first(body)
        elif (commit := _commit_of(body)) is not None:
            self._write_staged(body, commit)

    def _write_first(self, body: Json) -> None:
        folder = write.folder_of(body.get("location") or body["storage_location"])
        newer = "protocol" in body
        protocol = _v1_protocol(body["protocol"]) if newer else _classic_protocol(body["properties"])
        fields = body["columns"]["fields"] if newer else [json.loads(each["type_json"]) for each in body["columns"]]
        properties = {key: value for key, value in body["properties"].items() if not key.startswith(DERIVED)}
        description = {"description": body["comment"]} if body.get("comment") else {}
        metadata = write.metadata(properties, tuple(fields), **description)
        stamp = body.get("last-commit-timestamp-ms") or int(body["properties"]["delta.lastCommitTimestamp"])
        domains = [write.domain(name, content) for name, content in body.get("domain-metadata", {}).items()]
        write.write_first(folder, write.commit_info(stamp, "CREATE TABLE"), protocol, metadata, *domains)
        self._tables[properties["io.unitycatalog.tableId"]] = Table(folder, protocol, metadata)

    def _write_staged(self, body: Json, commit: Json) -> None:
        table = self._tables[_id_of(body)]
        changed = _changed(table.metadata, body)
        actions = [] if changed == table.metadata else [changed]
        table.metadata = changed
        lines = write.lines(write.commit_info(commit["timestamp"], engineInfo=""), *actions)
        filler = "x" * (commit["file_size"] - len(lines))
        data = lines.replace(b'"engineInfo":""', f'"engineInfo":"{filler}"'.encode())
        assert len(data) == commit["file_size"], "the actions are larger than the stated file size"
        write.stage_bytes(table.folder, commit["version"], commit["timestamp"], data, name=commit["file_name"])

    def _publish(self, path: str, body: Json | None) -> None:
        if path.startswith("/delta/") and body is not None and (commit := _commit_of(body)) is not None:
            write.publish(self._tables[_id_of(body)].folder, commit)


def _commit_of(body: Json) -> Json | None:
    """The commit of a request, with the field names of the specification."""
    for action in body.get("updates", ()):
        if action["action"] == "add-commit":
            return {key.replace("-", "_"): value for key, value in action["commit"].items()}
    found: Json | None = body.get("commit_info")
    return found


def _id_of(body: Json) -> str:
    return str(body["table_id"] if "table_id" in body else body["requirements"][0]["uuid"])


def _changed(metadata: Json, body: Json) -> Json:
    """The metaData action after the changes that the request states."""
    inner = dict(metadata["metaData"])
    for action in body.get("updates", ()):
        if action["action"] == "set-columns":
            inner["schemaString"] = json.dumps(action["columns"])
        elif action["action"] == "set-properties":
            inner["configuration"] = {**inner["configuration"], **action["updates"]}
    stated = body.get("metadata") or {}
    if "properties" in stated:
        inner["configuration"] = stated["properties"]["properties"]
    if stated.get("description"):
        inner["description"] = stated["description"]
    if "schema" in stated:
        fields = [json.loads(each["type_json"]) for each in stated["schema"]["columns"]]
        inner["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    return {"metaData": inner}


def _v1_protocol(block: Json) -> Json:
    log_names = {"min-reader-version": "minReaderVersion", "min-writer-version": "minWriterVersion"}
    log_names |= {"reader-features": "readerFeatures", "writer-features": "writerFeatures"}
    return {"protocol": {log_names[key]: value for key, value in block.items()}}


def _classic_protocol(properties: dict[str, str]) -> Json:
    features = [key.removeprefix("delta.feature.") for key in properties if key.startswith("delta.feature.")]
    readers = [feature for feature in features if feature in READER_FEATURES]
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": readers, "writerFeatures": features}}


def _pairs(theirs: Any, ours: Any) -> Iterator[tuple[Any, Any]]:
    yield theirs, ours
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in theirs.keys() & ours.keys():
            yield from _pairs(theirs[key], ours[key])
    elif isinstance(theirs, list) and isinstance(ours, list):
        for one, other in zip(theirs, ours, strict=False):
            yield from _pairs(one, other)


# --- shapes ------------------------------------------------------------------------------------


EXACT = ("version", "latest-table-version", "latest_table_version", "name", "table_type", "table-type", "nullable")
NOT_COMPARED = ("stack", "delta.rowTracking.rowIdHighWaterMark")
"""Clients do not need a stack trace, or the null in its place. The row id high-water mark changes with every
append, so the older API does not show it: Unity always shows the one of the creation."""


def differences(theirs: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Where our response lacks what theirs has. More fields are fine, and so is a value instead of null."""
    match theirs, ours:
        case None, _:
            return
        case dict(), dict():
            for key in theirs.keys() - {*NOT_COMPARED}:
                if key in ours:
                    yield from differences(theirs[key], ours[key], f"{path}.{key}")
                else:
                    yield f"{path}.{key} is missing"
        case list(), list():
            if len(theirs) != len(ours):
                yield f"{path} has {len(ours)} entries, theirs {len(theirs)}"
            for at, (one, other) in enumerate(zip(theirs, ours, strict=False)):
                yield from differences(one, other, f"{path}[{at}]")
        case _ if type(theirs) is not type(ours) or (path.rpartition(".")[2] in EXACT and theirs != ours):
            yield f"{path} is {ours!r}, theirs is {theirs!r}"
