"""`moorage spark-sql`: Spark's SQL shell with the catalogs of a server."""

from __future__ import annotations

from moorage.cli.spark_settings import spark_parser
from moorage.cli.spark_shell import run_shell


def run(argv: list[str]) -> int:
    parser = spark_parser("spark-sql", "Start Spark's SQL shell with the catalogs of a server.")
    parser.add_argument("-e", dest="statement", metavar="SQL", help="run this statement and exit")
    parser.add_argument("-f", dest="file", metavar="FILE", help="run the statements of this file and exit")
    args = parser.parse_args(argv)
    more = ["-e", args.statement] if args.statement else ["-f", args.file] if args.file else []
    return run_shell("spark-sql", args, more)
