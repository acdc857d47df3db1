"""`moorage COMMAND …`: runs the command, and reports a failure in one line."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import Final

import moorage
from moorage.cli.failure import FAILED, INTERRUPTED, Failure
from moorage.core.errors import MoorageError

VERBS: Final = {
    "up": "run a catalog with a sample lake and a worker, to try it out",
    "serve": "run a catalog server",
    "worker": "run the jobs of a catalog",
    "health": "show what is wrong with a table, and the work that mends it",
    "job": "start, list, show, watch, cancel and retry jobs",
    "ingest": "take files into a table, each row exactly once",
    "pipeline": "check, run and show pipelines",
    "lineage": "show which versions of which tables a version was made of",
    "pyspark": "start Spark's Python shell with the catalogs of a server",
    "spark-sql": "start Spark's SQL shell with the catalogs of a server",
    "sql": "run SQL on the tables of a server, also MERGE, UPDATE and DELETE on Delta tables",
    "spark-conf": "print the settings of a Spark with the catalogs of a server",
    "status": "show the status of a running catalog",
    "share": "share tables and schemas with recipients",
    "recipient": "create recipients of shares, and rotate their tokens",
    "feed": "print the changes of a running catalog, from any entry on",
    "audit": "print who did what, and what was refused",
    "user": "create, list and delete users",
    "group": "create groups, and change their members",
    "token": "create, list and revoke tokens",
    "grant": "grant privileges on an object",
    "revoke": "revoke privileges on an object",
    "who-can": "show who holds a privilege on an object, and why",
    "credential": "manage the keys and roles that open object stores",
    "location": "manage folders of object stores that the catalog may use",
    "admin": "make a new token for the administrator",
    "backup": "copy a ledger into one file while its servers run",
    "restore": "restore a ledger from a backup",
    "move": "move a ledger from SQLite to PostgreSQL",
    "migrate": "upgrade the schema of a ledger",
}


def main(argv: Sequence[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else list(argv)
    # SIGTERM cleans up like Ctrl-C, so that no partial backup is left. Servers install their own handler.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(args)
    except Failure as failure:
        return _fail(failure.line, failure.code)
    except MoorageError as error:
        return _fail(error.message, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output closed the pipe. Without this, Python would report the error again at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(args: list[str]) -> int:
    verb, rest = (args[0], args[1:]) if args else ("--help", [])
    if verb in VERBS:
        module = importlib.import_module(f"moorage.cli.{verb.replace('-', '_')}")
        return int(module.run(rest))
    if verb == "--version":
        print(f"moorage {moorage.__version__}")
        return 0
    if verb in ("--help", "-h", "help"):
        print(_help())
        return 0
    raise Failure(f"unknown command `moorage {verb}`; run `moorage --help` for a list of commands", code=2)


def _help() -> str:
    verbs = "\n".join(f"  {verb:<10} {summary}" for verb, summary in VERBS.items())
    return (
        "usage: moorage COMMAND [options]\n\n"
        "One catalog for every open table format.\n\n"
        f"{verbs}\n\n"
        "Run `moorage COMMAND --help` for the options of a command, and `moorage --version` for the version."
    )


def _fail(line: str, code: int) -> int:
    print(f"moorage: {' '.join(line.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
