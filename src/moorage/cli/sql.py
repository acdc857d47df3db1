"""`moorage sql`: SQL on the tables of a server, also changes of the rows of managed Delta tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.spark_settings import end_when_interrupted, spark_errors, spark_parser
from moorage.cli.worker import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from moorage.client.delta.shadows import Changed

STDIN: Final = "-"


def run(argv: list[str]) -> int:
    parser = spark_parser("sql", "Run SQL on the tables of a server, also MERGE, UPDATE and DELETE on Delta tables.")
    parser.add_argument("statement", metavar="SQL", nargs="?", help="one or several statements; - reads standard input")
    parser.add_argument("-f", dest="file", type=Path, metavar="FILE", help="run the statements of this file")
    arguments.add_json(parser)
    args = parser.parse_args(argv)
    text = _text(args.statement, args.file)

    from moorage.client import ClientError
    from moorage.client.delta.sql import results_of
    from moorage.client.spark import SparkUnavailable, session

    settings = spark_settings(args)
    try:
        with spark_errors():
            spark = session(args.url, catalog=args.catalog, token=args.token, settings=settings)
            end_when_interrupted()
            try:
                for result in results_of(spark, text):
                    _print(result, as_json=args.json)
            finally:
                spark.stop()
    except (SparkUnavailable, ValueError) as error:
        raise Failure(str(error)) from error
    except ClientError as error:
        raise Failure(error.message) from error
    return 0


def _text(statement: str | None, file: Path | None) -> str:
    if (statement is None) == (file is None):
        raise Failure("give the SQL as an argument, or a file with -f", code=USAGE)
    if file is not None:
        try:
            return file.read_text()
        except OSError as error:
            raise Failure(f"cannot read '{file}': {error.strerror}") from error
    return sys.stdin.read() if statement == STDIN else statement or ""


def _print(result: DataFrame | Changed, *, as_json: bool) -> None:
    from moorage.client.delta.shadows import Changed

    if isinstance(result, Changed):
        text = "no row changed" if result.version is None else f"version {result.version}"
        print(msgspec.json.encode(result).decode() if as_json else text, flush=True)
    elif as_json:
        from pyspark.sql import functions as f

        for (row,) in result.select(f.to_json(f.struct("*"))).toLocalIterator():
            print(row)
    elif result.columns:
        print("\t".join(result.columns))
        for found in result.toLocalIterator():
            print("\t".join("NULL" if value is None else str(value) for value in found))
