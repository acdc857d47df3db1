"""`moorage spark-conf`: prints the settings with which any Spark reaches the catalogs of a server."""

from __future__ import annotations

from moorage.cli.failure import Failure
from moorage.cli.spark_settings import catalogs_of, spark_parser
from moorage.cli.spark_shell import properties
from moorage.cli.worker import spark_settings


def run(argv: list[str]) -> int:
    parser = spark_parser("spark-conf", "Print the settings of a Spark with the catalogs of a server.")
    parser.add_argument("--packages", action="store_true", help="name the jars as packages instead of as files")
    args = parser.parse_args(argv)

    from moorage.client.spark.configuration import server_configuration
    from moorage.client.spark.failure import SparkUnavailable
    from moorage.client.spark.jars import TABLE_FORMATS, fetch_jars

    settings = spark_settings(args)
    try:
        conf = server_configuration(settings, [] if args.packages else fetch_jars(settings))
    except SparkUnavailable as error:
        raise Failure(str(error)) from error
    if args.packages:
        conf["spark.jars.packages"] = ",".join(f"{jar.group}:{jar.name}:{jar.version}" for jar in TABLE_FORMATS)
    print(properties(conf | catalogs_of(args) | settings.conf), end="")
    return 0
