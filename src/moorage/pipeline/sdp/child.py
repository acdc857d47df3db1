"""The process that imports a project. It has no secrets, and it is the only place that calls SDP's own functions.

Prints one JSON document per line: outputs and flows while the project is registered, events while it runs, and the
error with which it ended. Run as `python -m moorage.pipeline.sdp.child`, with the order as its argument.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from moorage.core.pipelines import SPEC, encoded_in
from moorage.pipeline.sdp.column_origins import Origins, origins_of_plan, origins_of_query
from moorage.pipeline.sdp.import_guard import Refused, no_writes, place_in
from moorage.pipeline.sdp.sql_files import Reads, SqlNotUnderstood, reads_of, statements_of

_OPEN_PIVOT: Final = "pivot without a list of its values"
"""Spark asks the table as it is now for the values."""
LOSES_EDGES: Final = frozenset(
    (
        *("with_columns", "with_columns_renamed", "drop", "fill_na", "drop_na", "replace", "sample", "with_watermark"),
        *("deduplicate", "to_schema", "unpivot", "transpose", "stat_sample_by", "summary", "describe", "crosstab"),
        _OPEN_PIVOT,
    )
)
"""Operators that Spark binds to the table as it is now, so that the flow no longer waits for its source. The first run
works, and each later one reads the rows of the run before."""
MOORAGE: Final = "moorage"
_WAP: Final = "write.wap.enabled"
"""The property of a table that lets a run write to a branch of it."""
_MAX_AGE: Final = "maxFileAge"
_CLIENT: Final = {
    "spark.sql.connect.serverStacktrace.enabled": "false",
    "spark.connect.session.planCompression.threshold": "-1",  # plans are looked at before they are sent
}
_INSTEAD: Final = 'use select("*", …), selectExpr, filter, groupBy or SQL, which keep the dependency'


def main() -> int:
    order = json.loads(sys.argv[1])
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the project prints must not mix with our lines

    def tell(**line: Any) -> None:
        print(json.dumps(line), file=output, flush=True)

    try:
        _run(order, tell)
    except Exception as error:  # noqa: BLE001  the parent reports it
        tell(kind="error", refused=isinstance(error, Refused), message=_message(error, Path(order["folder"])))
        return 1
    tell(kind="end")
    return 0


def _run(order: dict[str, Any], tell: Any) -> None:
    from pyspark.pipelines.cli import load_pipeline_spec
    from pyspark.sql import SparkSession

    root = Path(order["folder"])
    spec_path = root / SPEC
    spec = load_pipeline_spec(spec_path)
    is_full = bool(order.get("full_refresh") or order.get("full_refresh_all"))
    if (order["dry"] or is_full) and (character := encoded_in(spec.storage)) is not None:
        raise Refused(
            f"{SPEC}: Spark encodes the character {character!r} in the storage '{spec.storage}', and then does not "
            "find the checkpoints there: a full refresh would leave tables empty. Choose another location"
        )
    conf = {**spec.configuration, **order["conf"]}
    builder = SparkSession.builder.remote(order["remote"])
    for key, value in (conf | _CLIENT).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        _run_graph(spark, spec_path, spec, order, conf, tell)
    finally:
        spark.stop()


def _run_graph(spark: Any, spec_path: Path, spec: Any, order: dict[str, Any], conf: dict[str, str], tell: Any) -> None:
    from pyspark.pipelines.cli import register_definitions
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    graph = create_dataflow_graph(spark, default_catalog=spec.catalog, default_database=spec.database, sql_conf=conf)
    tell(kind="spec", name=spec.name, catalog=spec.catalog, database=spec.database, storage=spec.storage)
    with no_writes(spark, spec_path.parent):
        register_definitions(spec_path, _registry(spark, graph, tell, spec_path.parent), spec, spark, graph)
    events = start_run(
        spark,
        graph,
        full_refresh=order.get("full_refresh") or [],
        full_refresh_all=bool(order.get("full_refresh_all")),
        refresh=order.get("refresh") or [],
        dry=order["dry"],
        storage=spec.storage,
    )
    for result in events:
        if "pipeline_event_result" in result:
            tell(kind="event", text=result["pipeline_event_result"].event.message)


def _registry(spark: Any, graph: str, tell: Any, root: Path) -> Any:
    """SDP's registry, which also reports what it registers and refuses what loses dependencies."""
    from pyspark.pipelines.output import MaterializedView, Sink, StreamingTable
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

    class Registry(SparkConnectGraphElementRegistry):  # type: ignore[misc]
        _client: Any

        def register_output(self, output: Any) -> None:
            if isinstance(output, MaterializedView):
                properties = {**(output.table_properties or {}), _WAP: "true"}
                output = dataclasses.replace(output, table_properties=properties)
                tell(kind="output", type="view", name=output.name)
            elif isinstance(output, StreamingTable):
                tell(kind="output", type="table", name=output.name)
            elif isinstance(output, Sink) and output.format == MOORAGE:
                options = {name.lower(): value for name, value in output.options.items()}
                tell(kind="output", type="sink", name=output.name, table=options.get("path") or options.get("table"))
            super().register_output(output)

        def register_flow(self, flow: Any) -> None:
            where = flow.source_code_location
            file = os.path.relpath(where.filename, root)
            inner = self._client
            self._client = _Watched(inner, flow, file, where.line_number, tell)
            try:
                super().register_flow(flow)
            finally:
                self._client = inner

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            for line in _sql_definitions(sql_text, str(file_path)):
                tell(**line)
            super().register_sql(sql_text, file_path)

    return Registry(spark, graph)


def _sql_definitions(text: str, file: str) -> Iterator[dict[str, Any]]:
    """The outputs and flows of a SQL file, as the child reports them."""
    try:
        found = list(statements_of(text))
    except SqlNotUnderstood as error:
        raise Refused(f"{file}:{error.line}: the statement cannot be analysed: {error.reason}") from error
    for each in found:
        if each.kind == "view" and each.properties.get(_WAP) != "true":
            raise Refused(
                f"{file}:{each.line}: the view {each.name} needs TBLPROPERTIES ('{_WAP}' = 'true'), so that a failed "
                "run leaves its rows as they are"
            )
        if each.kind in ("view", "table"):
            yield {"kind": "output", "type": each.kind, "name": each.name}
        if each.query is not None:
            yield {
                "kind": "flow",
                "name": each.name,
                "target": each.target,
                "reads": each.reads.tables,
                "sources": each.reads.sources,
                "file": file,
                "line": each.line,
                **_columns(origins_of_query(each.query)),
            }


def _columns(found: Origins) -> dict[str, Any]:
    known = {name: sorted(places) for name, places in found.columns.items() if places}
    return {"columns": known, "every": sorted(found.every), "hidden": sorted(found.columns.keys() - known.keys())}


class _Watched:
    """Spark's client, which looks at the plan of a flow before it is sent."""

    def __init__(self, inner: Any, flow: Any, file: str, line: int, tell: Any) -> None:
        self.inner, self._flow, self._file, self._line, self._tell = inner, flow, file, line, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def execute_command(self, command: Any, *args: Any, **kwargs: Any) -> Any:
        plan = command.pipeline_command.define_flow.relation_flow_details.relation
        accept_late_files(plan)
        try:
            found, operators = reads_in(plan), list(operators_above_reads(plan))
        except SqlNotUnderstood as error:
            raise Refused(f"{self._file}:{self._line}: the query cannot be analysed: {error.reason}") from error
        for operator, tables in operators:
            if operator in LOSES_EDGES:
                raise Refused(
                    f"{self._file}:{self._line}: the flow '{self._flow.name}' uses {operator} on the table "
                    f"'{tables[0]}'; {_INSTEAD}"
                )
        self._tell(
            kind="flow",
            name=self._flow.name,
            target=self._flow.target,
            reads=found.tables,
            sources=found.sources,
            file=self._file,
            line=self._line,
            **_columns(origins_of_plan(plan)),
        )
        return self.inner.execute_command(command, *args, **kwargs)


def operators_above_reads(relation: Any) -> Iterator[tuple[str, list[str]]]:
    """Each operator of a plan with the tables that are read below it. A read is an operator with its own table."""
    kind = relation.WhichOneof("rel_type")
    if kind is None:
        return
    if kind == "read" and relation.read.WhichOneof("read_type") == "named_table":
        yield "read", [relation.read.named_table.unparsed_identifier]
        return
    if kind == "sql":
        yield "read", list(reads_of(relation.sql.query).tables)
        return
    below: list[str] = []
    for child in _children(getattr(relation, kind)):
        for operator, tables in operators_above_reads(child):
            below += tables
            yield operator, tables
    if below:
        is_pivot = kind == "aggregate" and relation.aggregate.HasField("pivot")
        yield _OPEN_PIVOT if is_pivot and not relation.aggregate.pivot.values else kind, below


def accept_late_files(relation: Any) -> None:
    """Let streams read files however old they are. By default Spark skips those a week older than the newest one."""
    kind = relation.WhichOneof("rel_type")
    if kind is None:
        return
    if kind == "read" and relation.read.WhichOneof("read_type") == "data_source":
        source = relation.read.data_source
        given = {name.lower() for name in source.options}
        if relation.read.is_streaming and source.format != MOORAGE and _MAX_AGE.lower() not in given:
            source.options[_MAX_AGE] = "36500d"
    for child in _children(getattr(relation, kind)):
        accept_late_files(child)


def reads_in(relation: Any) -> Reads:
    """What a plan reads: tables by their names, in SQL and by `format("moorage")`, and paths by all other formats."""
    kind = relation.WhichOneof("rel_type")
    if kind == "read" and relation.read.WhichOneof("read_type") == "named_table":
        return Reads(tables=(relation.read.named_table.unparsed_identifier,))
    if kind == "read":
        source = relation.read.data_source
        paths = {*source.paths, *(value for name, value in source.options.items() if name.lower() == "path")}
        found = tuple(sorted(paths))
        return Reads(tables=found) if source.format == MOORAGE else Reads(sources=found)
    if kind == "sql":
        return reads_of(relation.sql.query)
    below = [] if kind is None else [reads_in(child) for child in _children(getattr(relation, kind))]
    return Reads(
        tables=tuple(sorted({name for each in below for name in each.tables})),
        sources=tuple(sorted({name for each in below for name in each.sources})),
    )


def _children(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for item in value if field.is_repeated else (value,):
            if getattr(item, "DESCRIPTOR", None) is not None and item.DESCRIPTOR.name == "Relation":
                yield item


def _message(error: Exception, root: Path) -> str:
    text = str(error).split("JVM stacktrace")[0].strip()
    if isinstance(error, Refused):
        return text[:5_000]
    frames: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename is not None:  # its file has no frame
        text, frames = error.msg, [traceback.FrameSummary(error.filename, error.lineno, "")]
    return f"{place_in(frames, root.resolve())}{type(error).__name__}: {text}"[:5_000]


if __name__ == "__main__":
    sys.exit(main())
