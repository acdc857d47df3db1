"""Starts a shell of Spark with the catalogs of a server."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from moorage.cli.failure import Failure
from moorage.cli.spark_settings import catalogs_of
from moorage.cli.worker import spark_settings


def run_shell(program: str, args: argparse.Namespace, more: Sequence[str]) -> int:
    """Run a program of PySpark until it ends, and return its exit code."""
    from moorage.client.spark.configuration import server_configuration
    from moorage.client.spark.failure import SparkUnavailable
    from moorage.client.spark.jars import fetch_jars, find_java, find_pyspark
    from moorage.client.spark.sessions import prepare_environment

    settings = spark_settings(args)
    if settings.remote is not None:
        raise Failure(f"moorage {program} starts Spark itself; remove --spark-remote")
    try:
        find_java()
        conf = server_configuration(settings, fetch_jars(settings)) | catalogs_of(args) | settings.conf
        command = [str(find_pyspark() / "bin" / program)]
    except SparkUnavailable as error:
        raise Failure(str(error)) from error
    prepare_environment(settings)
    # For format("moorage"), which has no other way to learn of the server.
    environment = {**os.environ, "MOORAGE_URL": args.url, **({"MOORAGE_TOKEN": args.token} if args.token else {})}
    with tempfile.TemporaryDirectory(prefix="moorage-") as folder:
        file = Path(folder) / "spark.conf"
        # A file and not arguments, because other users of the machine can see the arguments of a process.
        file.touch(mode=0o600)
        file.write_text(properties(conf))
        return subprocess.run(
            [*command, "--properties-file", str(file), *more], env=environment, check=False
        ).returncode


def properties(conf: Mapping[str, str]) -> str:
    """The settings in the format of spark-defaults.conf."""
    return "".join(f"{key} {value}\n" for key, value in conf.items())
