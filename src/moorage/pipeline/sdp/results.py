"""The result of a run: the rows of each table, and which versions were read and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from moorage.client import Client, ClientError
from moorage.client.answers import Pipeline
from moorage.core.entries import JobState
from moorage.core.jobs import PIPELINE
from moorage.core.lineage import Input, Lineage, Output, Step, resolve_reads, to_result
from moorage.pipeline.sdp.project import FlowColumns
from moorage.pipeline.stream_marks import STREAM_MARK


class State(msgspec.Struct, frozen=True, kw_only=True):
    """A table at one moment."""

    id: str
    version: str | None
    """The version, or the id of the snapshot of an Iceberg table. None: it has none yet."""
    metadata: dict[str, Any] | None = None
    """Of an Iceberg table."""
    rows: int | None = None
    """Of a Delta or Lance table, if it was counted."""


States = Mapping[str, State | None]


def states_of(client: Client, tables: Iterable[str]) -> dict[str, State | None]:
    return {table: state_of(client, table) for table in tables}


def with_rows(client: Client, states: States, sinks: Iterable[str]) -> dict[str, State | None]:
    """The same, with the rows of Delta and Lance tables. A worker that may not read a table does not count it."""
    counted = dict(states)
    for table in sinks:
        state = counted.get(table)
        if state is None or state.metadata is not None:
            continue
        catalog, *path, name = table.split(".")
        try:
            facts = client.namespaces.health(catalog, path, name).facts
        except ClientError as error:
            if error.status != 403:
                raise
            continue
        if facts["rows"] is not None:
            counted[table] = msgspec.structs.replace(state, rows=facts["rows"] - facts["deleted_rows"])
    return counted


def state_of(client: Client, table: str) -> State | None:
    """The table of a full name, or None if there is none."""
    catalog, *path, name = table.split(".")
    try:
        found = client.namespaces.table(catalog, path, name)
    except ClientError as error:
        if error.status == 404:
            return None
        raise
    if found.format != "iceberg":
        return State(id=found.id, version=None if found.head is None else str(found.head.version))
    metadata = client.pipelines.iceberg_metadata(table)
    current = None if metadata is None else metadata.get("current-snapshot-id")
    return State(id=found.id, version=None if current in (None, -1) else str(current), metadata=metadata)


def involved_tables(pipeline: Pipeline) -> list[str]:
    """Every table that the pipeline reads or writes."""
    own = {*pipeline.tables, *pipeline.views, *pipeline.sinks}
    temporary = {flow.target for flow in pipeline.flows} - own
    read = {table for flow in pipeline.flows for table in flow.reads} - temporary
    return sorted(own | {table for table in read if table.count(".") >= 2})


def recorded_versions(client: Client, pipeline: Pipeline) -> dict[str, str]:
    """The version of each table after the last run of the pipeline that succeeded."""
    runs = client.jobs.list(kind=PIPELINE, subject=pipeline.id, state=JobState.SUCCEEDED, newest_first=True)
    last = next(iter(runs), None)
    tables = {} if last is None else (last.result or {}).get("tables") or {}
    return {table: facts["version"] for table, facts in tables.items() if facts.get("version") is not None}


def result_of(
    pipeline: Pipeline,
    before: States,
    after: States,
    *,
    published: Mapping[str, int],
    recorded: Mapping[str, str],
    columns: Mapping[str, Sequence[FlowColumns]] = MappingProxyType({}),
) -> dict[str, Any]:
    """The rows of each table, and the lineage.

    `published`: view → the snapshot that is its newest by this run. `recorded`: see `recorded_versions`. What failed
    attempts have committed to streaming tables is recorded with the run that succeeds after them.
    """
    tables, written = {}, dict[str, list[str]]()
    for table in (*pipeline.tables, *pipeline.views, *pipeline.sinks):
        now = after.get(table)
        if now is None:
            continue
        if table in pipeline.views:
            written[table] = _published_versions(before.get(table), now, published.get(table))
        else:
            written[table] = _appended_versions(before.get(table), now, recorded.get(table))
        tables[table] = {"rows": _rows(now), "added": _added(now, written[table]), "version": now.version}
    flows = dict[str, tuple[str, ...]]()
    for flow in pipeline.flows:
        flows[flow.target] = (*flows.get(flow.target, ()), *flow.reads, *flow.sources)
    origins = ColumnOrigins(columns, frozenset(written), after)
    steps = [
        msgspec.structs.replace(
            _step(target, found, before, after, written, is_view=target in pipeline.views), columns=origins.of(target)
        )
        for target, found in resolve_reads(flows, frozenset(written))
        if written[target]
    ]
    return {"digest": pipeline.digest, "tables": tables, **to_result(Lineage(steps=tuple(steps)))}


class ColumnOrigins:
    """Column → the columns of tables that it was computed from, across temporary views. Unknown ones are left out."""

    def __init__(self, flows: Mapping[str, Sequence[FlowColumns]], tables: frozenset[str], states: States) -> None:
        """`flows`: target → what its flows tell, `tables`: the targets that are no temporary views."""
        self._flows, self._tables, self._states = flows, tables, states

    def of(self, target: str) -> dict[str, tuple[str, ...]]:
        made, unknown = dict[str, set[str]](), set[str]()
        for flow in self._flows.get(target, ()):
            found = {name: self._behind(places) for name, places in flow.columns.items()}
            passed = [self._columns_of(table) for table in flow.every]
            for each in passed:
                for name, places in each.items():
                    if name not in found and name not in flow.hidden and sum(name in other for other in passed) == 1:
                        found[name] = places
            unknown |= {*flow.hidden, *(name for name, places in found.items() if places is None)}
            for name, places in found.items():
                made.setdefault(name, set()).update(places or ())
        return {name: tuple(sorted(places)) for name, places in sorted(made.items()) if places and name not in unknown}

    def _behind(self, places: Iterable[tuple[str, str]]) -> tuple[str, ...] | None:
        whole: list[str] = []
        for table, column in places:
            if not self._is_temporary(table):
                whole.append(f"{table}.{column}")
            elif (behind := self.of(table).get(column)) is not None:
                whole += behind
            else:
                return None
        return tuple(whole)

    def _columns_of(self, table: str) -> dict[str, tuple[str, ...] | None]:
        """The columns of a table, each as its own origin, or those of a temporary view."""
        if self._is_temporary(table):
            return dict(self.of(table))
        state = self._states.get(table)
        metadata = {} if state is None else state.metadata or {}
        current = metadata.get("current-schema-id")
        schemas: list[dict[str, Any]] = metadata.get("schemas") or []
        names = [field["name"] for each in schemas if each.get("schema-id") == current for field in each["fields"]]
        return {name: (f"{table}.{name}",) for name in names}

    def _is_temporary(self, table: str) -> bool:
        return table in self._flows and table not in self._tables


def _step(
    target: str,
    found: tuple[str, ...],
    before: States,
    after: States,
    written: Mapping[str, list[str]],
    *,
    is_view: bool,
) -> Step:
    old, new = before.get(target), after[target]
    assert new is not None  # noqa: S101  it has new versions
    inputs = [] if is_view or old is None else [Input(table=target, id=old.id, version=old.version)]
    inputs += [
        each for name in found if name != target and (each := _input(name, before, after, is_own=name in written))
    ]
    return Step(
        output=Output(table=target, id=new.id, versions=tuple(written[target])),
        inputs=tuple(inputs),
        sources=tuple(name for name in found if "/" in name),
    )


def _input(name: str, before: States, after: States, *, is_own: bool) -> Input | None:
    """The version of a table that a flow has read. A table of the pipeline was written before the flow read it."""
    first, last = before.get(name), after.get(name)
    if last is None or is_own:
        return None if last is None else Input(table=name, id=last.id, version=last.version)
    version = None if first is None else first.version
    return Input(table=name, id=last.id, version=version, until=last.version if last.version != version else None)


def _published_versions(before: State | None, after: State, head: int | None) -> list[str]:
    """The snapshots of a view that became visible, the oldest first."""
    known = {each["snapshot-id"] for each in _snapshots(before)}
    new = {each["snapshot-id"]: each for each in _snapshots(after) if each["snapshot-id"] not in known}
    found = []
    while head in new:
        found.append(str(head))
        head = new[head].get("parent-snapshot-id")
    return found[::-1]


def _appended_versions(before: State | None, after: State, recorded: str | None) -> list[str]:
    """The versions that streams have added to a table since the recorded one, the oldest first."""
    if after.metadata is None:
        first = recorded or (None if before is None else before.version)
        return [str(version) for version in range(_number(first) + 1, _number(after.version) + 1)]
    by_id = {each["snapshot-id"]: each for each in _snapshots(after)}
    found, at = [], after.metadata.get("current-snapshot-id")
    while at in by_id and str(at) != recorded:
        # Another snapshot is that of another writer, such as a compaction.
        if STREAM_MARK in (by_id[at].get("summary") or {}):
            found.append(str(at))
        at = by_id[at].get("parent-snapshot-id")
    return found[::-1]


def _number(version: str | None) -> int:
    return -1 if version is None else int(version)


def _snapshots(state: State | None) -> list[dict[str, Any]]:
    return [] if state is None else (state.metadata or {}).get("snapshots") or []


def _rows(state: State) -> int | None:
    """The rows of a table, from the summaries of its snapshots. After a truncation they state no total."""
    if state.metadata is None:
        return state.rows
    by_id = {str(each["snapshot-id"]): each for each in _snapshots(state)}
    rows, at = 0, state.version
    while at in by_id:
        summary = by_id[at].get("summary") or {}
        if "total-records" in summary:
            return rows + int(summary["total-records"])
        rows += int(summary.get("added-records", 0)) - int(summary.get("deleted-records", 0))
        parent = by_id[at].get("parent-snapshot-id")
        if parent is None:
            return rows
        at = str(parent)
    return None


def _added(state: State, versions: list[str]) -> int | None:
    if state.metadata is None:
        return None
    return sum(int(_summary(state, version).get("added-records", 0)) for version in versions)


def _summary(state: State, version: str | None) -> dict[str, str]:
    found = next((each for each in _snapshots(state) if str(each["snapshot-id"]) == version), {})
    summary: dict[str, str] = found.get("summary") or {}
    return summary
