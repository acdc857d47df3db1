"""What the verbs that start Spark share: their options, and the settings that result."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moorage.cli import arguments
from moorage.cli.failure import Failure
from moorage.cli.worker import add_spark, spark_settings

if TYPE_CHECKING:
    from moorage.client.spark.settings import SparkSettings


def spark_parser(verb: str, description: str) -> arguments.Parser:
    parser = arguments.parser(verb, description)
    arguments.add_server(parser)
    parser.add_argument(
        "--catalog", action="append", metavar="NAME", help="a catalog to attach; may be repeated (default: all)"
    )
    add_spark(parser)
    return parser


def require_settings(args: argparse.Namespace) -> SparkSettings:
    settings = spark_settings(args)
    if settings is None:
        raise Failure("this command needs Spark; remove --no-spark")
    return settings


def catalogs_of(args: argparse.Namespace) -> dict[str, str]:
    """The settings that attach the catalogs."""
    from moorage.client import ClientError
    from moorage.client.spark.catalogs import catalog_configuration
    from moorage.client.spark.sessions import find_catalogs

    try:
        names = args.catalog or find_catalogs(args.url, args.token)
    except ClientError as error:
        raise Failure(error.message) from error
    return catalog_configuration(args.url, names, token=args.token)
