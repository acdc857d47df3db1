"""`moorage pipeline`: projects of Spark's declarative pipelines, checked, registered and run by workers."""

from __future__ import annotations

import argparse
import json
import re
import uuid
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.job_watch import watch
from moorage.cli.progress import Progress
from moorage.cli.server_client import run_verb
from moorage.cli.worker import add_spark, spark_settings
from moorage.core.entries import JobState
from moorage.core.jobs import PIPELINE
from moorage.core.pipelines import encoded_in

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.answers import Job, Pipeline

_SUFFIXES: Final = {".py", ".sql", ".yml", ".yaml"}
_SPEC: Final = """\
name: {name}
storage: {storage}
catalog: {catalog}
schema: {schema}
libraries:
  - glob:
      include: transformations/**
"""
_SAMPLE: Final = '''\
"""A sample: rows that arrive as JSON files, and their totals. Change it, then run `moorage pipeline check`."""

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.table
def {name}_events():
    return spark.readStream.schema("id LONG, amount DOUBLE").json({incoming})


@dp.materialized_view
def {name}_totals():
    return spark.read.table("{name}_events").selectExpr("count(*) AS events", "sum(amount) AS amount")
'''


def run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    return _init(args) if args.verb == "init" else run_verb(args)


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("pipeline", "Check, register and run projects of Spark's declarative pipelines.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    init = verbs.add_parser("init", help="write a sample project into a new folder", allow_abbrev=False)
    init.add_argument("name", metavar="CATALOG.SCHEMA.NAME")
    init.add_argument("--folder", type=Path, help="the folder to create (default: the name of the pipeline)")
    init.set_defaults(act=_init)
    check = verbs.add_parser("check", help="check a project and register it", allow_abbrev=False)
    check.add_argument("folder", type=Path, help="the folder with spark-pipeline.yml")
    check.add_argument("--comment")
    check.add_argument("--schedule", metavar="CRON", help="run it at these times, in UTC: '0 * * * *' is every hour")
    check.add_argument("--on-change", action="store_true", help="run it when a table that it reads has a new version")
    check.set_defaults(act=_check)
    add_spark(check)
    start = verbs.add_parser("run", help="run a pipeline, and watch it until it ends", allow_abbrev=False)
    start.add_argument("--refresh", action="append", default=[], metavar="TABLE", help="only this table; repeatable")
    start.add_argument("--full-refresh", action="append", default=[], metavar="TABLE", help="compute it from scratch")
    start.add_argument("--full-refresh-all", action="store_true")
    start.add_argument("--no-watch", action="store_true", help="return when the run is enqueued")
    start.set_defaults(act=_run)
    listing = verbs.add_parser("list", help="list the pipelines of a schema", allow_abbrev=False)
    listing.add_argument("schema", metavar="CATALOG.SCHEMA")
    listing.set_defaults(act=_list)
    for verb, act, summary in (
        ("show", _show, "show a pipeline with its graph"),
        ("stop", _stop, "cancel the open run of a pipeline"),
        ("history", _history, "list the runs of a pipeline, the newest first"),
        ("drop", _drop, "drop a pipeline; its tables stay"),
    ):
        verbs.add_parser(verb, help=summary, allow_abbrev=False).set_defaults(act=act)
    for verb in ("run", "show", "stop", "history", "drop"):
        verbs.choices[verb].add_argument("name", metavar="CATALOG.SCHEMA.NAME")
    for verb, each in verbs.choices.items():
        if verb != "init":
            arguments.add_server(each)
            arguments.add_json(each)
    return parser


def _init(args: argparse.Namespace) -> int:
    catalog, path, name = _split(args.name)
    folder = (args.folder or Path(name)).absolute()
    if folder.exists():
        raise Failure(f"'{folder}' exists already; choose another --folder")
    if (character := encoded_in(str(folder))) is not None:
        raise Failure(
            f"'{folder}' has the character {character!r}, which Spark encodes in locations; choose a --folder"
        )
    (folder / "transformations").mkdir(parents=True)
    (folder / "incoming").mkdir()
    texts = {"name": name, "storage": f"file://{folder}/state", "catalog": catalog, "schema": path[-1]}
    spec = _SPEC.format(**{key: _quoted(text) for key, text in texts.items()})
    (folder / "spark-pipeline.yml").write_text(spec, encoding="utf-8")
    word = re.sub(r"^(?=\d)|\W", "_", name)
    sample = _SAMPLE.format(name=word, incoming=_quoted(f"{folder}/incoming"))
    (folder / "transformations" / f"{word}.py").write_text(sample, encoding="utf-8")
    print(f"{folder}: put JSON files into incoming/, then run `moorage pipeline check {folder}`")
    return 0


def _quoted(text: str) -> str:
    """A text as YAML and Python write it."""
    return json.dumps(text, ensure_ascii=False)


def _check(client: Client, args: argparse.Namespace) -> int:
    from moorage.client.spark import SparkUnavailable
    from moorage.pipeline.sdp.connect_server import ConnectServer
    from moorage.pipeline.sdp.project import ProjectFailed, run_project

    files = _files(args.folder)
    settings = spark_settings(args)
    try:
        with Progress() as progress, ConnectServer(settings, args.url, args.token) as server:
            progress("starting Spark")
            outcome = run_project(files, server, {"dry": True}, session_id=str(uuid.uuid4()))
    except (ProjectFailed, SparkUnavailable) as error:
        raise Failure(str(error)) from error
    graph = outcome.graph
    if graph.catalog is None or graph.database is None:
        raise Failure("spark-pipeline.yml must state the catalog and the schema of the pipeline")
    made = client.pipelines.register(
        graph.catalog,
        [graph.database],
        graph.name,
        files,
        tables=graph.tables,
        views=graph.views,
        sinks=sorted(graph.sinks.values()),
        flows=graph.flows,
        schedule=args.schedule,
        on_change=args.on_change,
        comment=args.comment,
    )
    return _print(made, f"{graph.catalog}.{graph.database}.{graph.name}", args)


def _files(folder: Path) -> dict[str, str]:
    if not (folder / "spark-pipeline.yml").is_file():
        raise Failure(f"'{folder}' has no spark-pipeline.yml; `moorage pipeline init` writes a sample")
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix in _SUFFIXES)
    named = {str(path.relative_to(folder)): path for path in sorted(found)}
    visible = {
        name: path for name, path in named.items() if not any(part.startswith((".", "__")) for part in Path(name).parts)
    }
    return {name: _text_of(path) for name, path in visible.items()}


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Failure(
            f"'{path}' is not UTF-8: {error.reason} at byte {error.start}; save it in that encoding"
        ) from error


def _run(client: Client, args: argparse.Namespace) -> int:
    what: dict[str, Any] = {"refresh": args.refresh, "full_refresh": args.full_refresh}
    job = client.pipelines.run(*_split(args.name), **what, full_refresh_all=args.full_refresh_all)
    if not args.no_watch:
        job = watch(client, job)
    _print_run(job, args)
    return 0 if args.no_watch or job.state is JobState.SUCCEEDED else 1


def _list(client: Client, args: argparse.Namespace) -> int:
    catalog, *path = args.schema.split(".")
    if not path or not all((catalog, *path)):
        raise Failure(f"expected CATALOG.SCHEMA, not {args.schema!r}", code=USAGE)
    for pipeline in client.pipelines.list(catalog, path):
        _print(pipeline, f"{args.schema}.{pipeline.name}", args, is_short=True)
    return 0


def _show(client: Client, args: argparse.Namespace) -> int:
    pipeline = client.pipelines.get(*_split(args.name))
    _print(pipeline, args.name, args)
    if not args.json:
        last = client.jobs.list(kind=PIPELINE, subject=pipeline.id, newest_first=True, state=JobState.SUCCEEDED)
        for job in islice(last, 1):
            print("last run")
            _print_run(job, args)
    return 0


def _stop(client: Client, args: argparse.Namespace) -> int:
    pipeline = client.pipelines.get(*_split(args.name))
    for state in (JobState.RUNNING, JobState.QUEUED):
        for job in client.jobs.list(state=state, kind=PIPELINE, subject=pipeline.id):
            _print_run(client.jobs.cancel(job.id), args)
            return 0
    raise Failure(f"'{args.name}' has no open run")


def _history(client: Client, args: argparse.Namespace) -> int:
    pipeline = client.pipelines.get(*_split(args.name))
    for job in islice(client.jobs.list(kind=PIPELINE, subject=pipeline.id, newest_first=True), 50):
        _print_run(job, args)
    return 0


def _drop(client: Client, args: argparse.Namespace) -> int:
    client.pipelines.drop(*_split(args.name))
    print(f"{args.name} is dropped; its tables stay")
    return 0


def _split(name: str) -> tuple[str, list[str], str]:
    catalog, *path = name.split(".")
    if len(path) < 2 or not all((catalog, *path)):
        raise Failure(f"expected a pipeline CATALOG.SCHEMA.NAME, not {name!r}", code=USAGE)
    return catalog, path[:-1], path[-1]


def _print(pipeline: Pipeline, name: str, args: argparse.Namespace, *, is_short: bool = False) -> int:
    if args.json:
        print(msgspec.json.encode(pipeline).decode())
        return 0
    of_each = {"streaming table": pipeline.tables, "view": pipeline.views, "file": pipeline.files}
    counts = ", ".join(f"{len(each)} {what}{'' if len(each) == 1 else 's'}" for what, each in of_each.items())
    print(f"{name}  {pipeline.digest[:12]}  {counts}")
    for flow in () if is_short else pipeline.flows:
        where = ":".join(str(part) for part in (flow.file, flow.line) if part)
        read = ", ".join((*flow.reads, *flow.sources)) or "nothing"
        print(f"  {flow.target} <- {read}  ({where})" if where else f"  {flow.target} <- {read}")
    return 0


def _print_run(job: Job, args: argparse.Namespace) -> None:
    if args.json:
        print(msgspec.json.encode(job).decode())
        return
    at = datetime.fromtimestamp(job.created_at_ms / 1000, UTC).isoformat(" ", "seconds")
    tables = (job.result or {}).get("tables") or {}
    rows = ", ".join(
        f"{table} {counts['rows']:,} rows" for table, counts in tables.items() if counts["rows"] is not None
    )
    print(f"{job.id}  {at}  {job.state}  attempt {job.attempt}  {rows or job.error or ''}")
    for table, counts in ((job.result or {}).get("expectations") or {}).items():
        for name, each in counts.items():
            total = each["fulfilled"] + each["broken"]
            print(f"  {table}: {name} ({each['action']}): {each['broken']:,} of {total:,} rows break it")
