"""`moorage pyspark`: Spark's Python shell with the catalogs of a server, and `format("moorage")`."""

from __future__ import annotations

from moorage.cli.spark_settings import spark_parser
from moorage.cli.spark_shell import run_shell


def run(argv: list[str]) -> int:
    parser = spark_parser("pyspark", "Start Spark's Python shell with the catalogs of a server.")
    return run_shell("pyspark", parser.parse_args(argv), [])
