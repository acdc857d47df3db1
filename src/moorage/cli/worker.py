"""`moorage worker`: runs the jobs of a catalog until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.server_client import connected

if TYPE_CHECKING:
    from moorage.client.spark.settings import SparkSettings


def run(argv: list[str]) -> int:
    parser = arguments.parser("worker", "Take jobs from a running catalog and run them.")
    arguments.add_server(parser)
    parser.add_argument("--once", action="store_true", help="exit when no job is due, instead of waiting for more")
    add_spark(parser)
    parser.add_argument(
        "--only-spark", action="store_true", help="run only jobs that need Spark, and start Spark with the first one"
    )
    parser.add_argument("--no-spark", action="store_true", help="run only jobs that need no Spark")
    args = parser.parse_args(argv)
    settings = None if args.no_spark else spark_settings(args)

    from moorage.core.jobs import PIPELINE
    from moorage.pipeline.lanes import run_lanes
    from moorage.pipeline.sdp.connect_server import ConnectServer
    from moorage.pipeline.sdp.runs import pipeline_program
    from moorage.pipeline.warm_session import WarmSession

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with connected(args.url, token=args.token, patience_s=30.0) as client:
        if settings is None:
            run_lanes(client, stop, None, once=args.once)
            return 0
        with ConnectServer(settings, args.url, args.token) as server:
            more = {PIPELINE: pipeline_program(server)}
            spark = WarmSession(settings)
            run_lanes(client, stop, spark, more=more, once=args.once, only_spark=args.only_spark)
    return 0


def add_spark(to: argparse.ArgumentParser) -> None:
    """Add the options that say where Spark runs."""
    to.add_argument(
        "--spark-master",
        metavar="URL",
        help="local[*], spark://host:7077, k8s://https://host:6443 or yarn (MOORAGE_SPARK_MASTER; default local[*])",
    )
    to.add_argument(
        "--spark-remote", metavar="URL", help="a Spark Connect server, sc://host:15002 (MOORAGE_SPARK_REMOTE)"
    )
    to.add_argument(
        "--spark-conf", metavar="KEY=VALUE", action="append", default=[], help="a setting of Spark; may be repeated"
    )
    to.add_argument(
        "--spark-conf-file",
        metavar="FILE",
        type=Path,
        help="settings of Spark, one per line as in spark-defaults.conf (MOORAGE_SPARK_CONF)",
    )


def spark_settings(args: argparse.Namespace) -> SparkSettings:
    """The settings of Spark, flags before environment."""
    from moorage.client.spark.failure import SparkUnavailable
    from moorage.client.spark.settings import SparkSettings, parse_conf, read_conf

    try:
        found = SparkSettings.from_environment()
        file = {} if args.spark_conf_file is None else read_conf(args.spark_conf_file)
        return replace(
            found,
            master=args.spark_master or found.master,
            remote=args.spark_remote or (None if args.spark_master else found.remote),
            conf={**found.conf, **file, **parse_conf(args.spark_conf)},
        )
    except SparkUnavailable as error:
        raise Failure(str(error), code=USAGE) from error
