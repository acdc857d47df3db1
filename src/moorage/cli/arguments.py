"""The arguments that verbs share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from moorage.cli.failure import USAGE, Failure
from moorage.core.hosts import is_http_url, is_postgres_url

DEFAULT_URL: Final = "http://127.0.0.1:8080"


class Parser(argparse.ArgumentParser):
    """Reports an error in one line. argparse would print the complete usage before it."""

    def error(self, message: str) -> NoReturn:
        raise Failure(f"{message}; see `{self.prog} --help`", code=USAGE)


def parser(verb: str, description: str) -> Parser:
    return Parser(prog=f"moorage {verb}", description=description, allow_abbrev=False)


def add_url(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--url",
        type=_url,
        default=os.environ.get("MOORAGE_URL") or DEFAULT_URL,
        help=f"the address of the server (MOORAGE_URL; default {DEFAULT_URL})",
    )


def add_server(to: argparse.ArgumentParser) -> None:
    """Add the options that name a server and authenticate the caller."""
    add_url(to)
    to.add_argument(
        "--token",
        default=os.environ.get("MOORAGE_TOKEN") or None,
        help="a token, if the server has authentication (better in MOORAGE_TOKEN: other users see arguments)",
    )


def add_json(to: argparse.ArgumentParser) -> None:
    to.add_argument("--json", action="store_true", help="print JSON")


def add_ledger(to: argparse.ArgumentParser) -> None:
    """Add the options that name a ledger, in a folder or in a database. No server is needed."""
    where = to.add_mutually_exclusive_group(required=True)
    where.add_argument("--data", type=Path, metavar="DIR", help="the data folder of an SQLite ledger")
    where.add_argument("--database", type=database_url, metavar="URL", help="the postgresql:// URL of the ledger")


def database_url(text: str) -> str:
    if not is_postgres_url(text):
        raise argparse.ArgumentTypeError("expected a postgresql:// URL")
    return text


def _url(text: str) -> str:
    if not is_http_url(text):
        raise argparse.ArgumentTypeError(f"expected an http:// or https:// URL, not {text!r}")
    return text


def whole_number(at_least: int) -> Callable[[str], Any]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < at_least:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {at_least}, not {text!r}")
        return int(text)

    return parse
