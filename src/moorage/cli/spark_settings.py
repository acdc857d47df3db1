"""What the verbs that start Spark share: their options, and the settings that result."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import Final

from moorage.cli import arguments
from moorage.cli.failure import INTERRUPTED, Failure
from moorage.cli.worker import add_spark

_STACK: Final = "Traceback (most recent call last):\n"
_PYTHON_ERROR: Final = re.compile(r"^(?P<name>[\w.]+): (?P<text>.+)", re.MULTILINE)
_PLAIN: Final = ("moorage.", "ValueError")
"""Errors whose message is a sentence without their name."""


def spark_parser(verb: str, description: str) -> arguments.Parser:
    parser = arguments.parser(verb, description)
    arguments.add_server(parser)
    parser.add_argument(
        "--catalog", action="append", metavar="NAME", help="a catalog to attach; may be repeated (default: all)"
    )
    add_spark(parser)
    return parser


@contextlib.contextmanager
def spark_errors() -> Iterator[None]:
    """Errors of Spark become Failures, in one line."""
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
    except ImportError:
        raise Failure("PySpark is not installed; install it with: pip install 'moorage[spark]'") from None
    # PySpark prints an error of a query as a line of JSON with the stack of Java, before it raises it.
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).disabled = True
    try:
        yield
    except PySparkException as error:
        raise Failure(reason_of(str(error))) from error
    except Py4JJavaError as error:
        # PySpark fails to convert errors that only Delta knows. What it raises then has the error as its context.
        first = error.__context__ if isinstance(error.__context__, Py4JJavaError) else error
        raise Failure(reason_of(str(first.java_exception.getMessage()))) from error


def end_when_interrupted() -> None:
    """End this process at once on Ctrl-C and SIGTERM, and with it Spark. Call it after Spark has started.

    PySpark's own handler calls Java while another call waits for its answer. After that, each call fails with a stack
    of Python, and so do those that would clean up. What runs here may be killed at any time, so nothing needs them.
    """

    def end(*_: object) -> None:
        sys.stdout.flush()
        os._exit(INTERRUPTED)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)


def reason_of(message: str) -> str:
    """The reason in an error of Spark: its first line, or the Python error of a data source, below the stack."""
    _, has_stack, stack = message.rpartition(_STACK)
    if has_stack and (found := _PYTHON_ERROR.search(stack)) is not None:
        return found["text"] if found["name"].startswith(_PLAIN) else found.group()
    return message.strip().partition("\n")[0]


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
