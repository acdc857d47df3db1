"""`moorage ingest`: files into a table, each row exactly once."""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.progress import Progress
from moorage.cli.spark_settings import end_when_interrupted, spark_errors
from moorage.cli.worker import add_spark, spark_settings

if TYPE_CHECKING:
    from moorage.pipeline.ingest.requests import Request, Summary

STDIN: Final = "-"
_INPUTS: Final = ("json", "csv", "parquet", "avro", "text")


def run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    if args.source == STDIN and args.input_format is None:
        raise Failure("standard input has no name that tells its format; add --input-format", code=USAGE)

    from moorage.client import ClientError
    from moorage.client.spark import SparkUnavailable, session
    from moorage.pipeline.ingest import IngestRefused, ingest

    settings = spark_settings(args)
    if sys.stderr.isatty():
        settings = replace(settings, conf={"spark.ui.showConsoleProgress": "true", **settings.conf})
    try:
        request = _request(args)
        _require_possible(request)
        with spark_errors(), Progress() as progress:
            progress("starting Spark")
            spark = session(args.url, catalog=args.table.split(".")[0], token=args.token, settings=settings)
            end_when_interrupted()
            try:
                while True:
                    summary = ingest(spark, request, progress)
                    _report(summary, as_json=args.json, evolve=args.evolve)
                    if args.watch is None:
                        return 0
                    time.sleep(args.watch)
            finally:
                spark.stop()
    except (IngestRefused, SparkUnavailable, ValueError) as error:
        raise Failure(str(error)) from error
    except ClientError as error:
        raise Failure(error.message) from error


def _parser() -> arguments.Parser:
    parser = arguments.parser("ingest", "Take files into a table. Run it again, and it takes only what is new.")
    parser.add_argument("source", metavar="SOURCE", help="a file, a folder, a pattern, or - for standard input")
    parser.add_argument("table", metavar="TABLE", help="the table, CATALOG.SCHEMA.TABLE; created if it does not exist")
    parser.add_argument("--format", choices=("delta", "iceberg", "lance"), default="delta", help="of the table")
    parser.add_argument("--input-format", choices=_INPUTS, help="of the files (default: told by their names)")
    parser.add_argument("--mode", choices=("append", "overwrite", "upsert"), default="append")
    parser.add_argument("--key", default="", metavar="COLUMNS", help="the columns that identify a row, for an upsert")
    parser.add_argument("--schema", metavar="DDL", help="the columns of a new table, such as 'id BIGINT, name STRING'")
    parser.add_argument("--evolve", action="store_true", help="add new fields to the table as columns")
    parser.add_argument("--partition-by", default="", metavar="COLUMNS", help="the partitions of a new table")
    parser.add_argument("--no-header", action="store_true", help="CSV files have no header; columns are by position")
    parser.add_argument("--delimiter", help="between the fields of CSV files (default: a comma, in .tsv files a tab)")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="look for new files again after each pause")
    arguments.add_server(parser)
    arguments.add_json(parser)
    add_spark(parser)
    return parser


def _request(args: argparse.Namespace) -> Request:
    from moorage.pipeline.ingest import Request

    return Request(
        source=_spooled(args) if args.source == STDIN else args.source,
        table=args.table,
        url=args.url,
        token=args.token,
        table_format=args.format,
        input_format=args.input_format,
        mode=args.mode,
        key=_names(args.key),
        schema=args.schema,
        evolve=args.evolve,
        partition_by=_names(args.partition_by),
        header=not args.no_header,
        delimiter=args.delimiter,
    )


def _require_possible(request: Request) -> None:
    """Find mistakes in the command before Spark starts, which takes seconds."""
    from moorage.client import Client
    from moorage.client.delta.tables import split_name
    from moorage.pipeline.ingest.files import find_files
    from moorage.pipeline.ingest.run import require_plausible

    require_plausible(request)
    catalog, schema, _ = split_name(request.table)
    find_files(request.source)
    with Client(request.url, token=request.token) as client:
        client.namespaces.get(catalog, [schema])


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _spooled(args: argparse.Namespace) -> str:
    """Standard input as a file. Its name is the digest of its bytes, so the same input is taken once.

    The source is the folder of all inputs of a table, so that a run also takes the input that a killed run has left. An
    overwrite replaces the table by this input alone, and no later run appends it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "moorage" / "stdin"
    folder = cache / hashlib.sha256(f"{args.url} {args.table}".encode()).hexdigest()[:16]
    if args.mode == "overwrite":
        folder = folder.with_name(f"{folder.name}-overwrite")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".", delete=False) as spool:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    with Path(spool.name).open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    file = Path(spool.name).rename(folder / f"{digest}.{args.input_format}")
    return str(file if args.mode == "overwrite" else folder)


def _report(summary: Summary, *, as_json: bool, evolve: bool) -> None:
    if as_json:
        print(msgspec.json.encode(summary).decode(), flush=True)
        return
    rate = f", {summary.rows / summary.seconds:,.0f} rows/s" if summary.seconds else ""
    size = f"{summary.files:,} files ({summary.bytes / 1e6:,.1f} MB)"
    print(f"{summary.table}: {summary.rows:,} rows from {size} in {summary.seconds:.1f} s{rate}", flush=True)
    if summary.rejected or summary.unreadable:
        print(
            f"rejected: {summary.rejected:,} records and {len(summary.unreadable):,} files, "
            f"with their reasons in {summary.rejected_table}"
        )
    if summary.unknown_fields:
        remedy = "" if evolve else "; add --evolve to store them"
        print(f"not stored: fields without a column: {', '.join(summary.unknown_fields)}{remedy}")
    if summary.changed_files:
        print(f"not read again: {summary.changed_files:,} files that changed after they were taken")
