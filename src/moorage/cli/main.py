"""`moorage VERB …`: finds the verb, and says in one line what went wrong."""

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
    "up": "run a catalog with a small sample lake and a worker, to look around",
    "serve": "run a catalog",
    "worker": "do the jobs of a catalog",
    "status": "show how a running catalog is doing",
    "feed": "show every change of a running catalog, from any point on",
    "backup": "copy a ledger into one file, while its servers run",
    "restore": "bring a backup to life",
    "move": "move a ledger from SQLite to PostgreSQL",
    "migrate": "bring the schema of a ledger up to date",
}


def main(argv: Sequence[str] | None = None) -> int:
    args = sys.argv[1:] if argv is None else list(argv)
    # Whoever is told to stop tidies up as after Ctrl-C: half a backup must not stay behind. Servers have their own way.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _run(args)
    except Failure as failure:
        return _say(failure.line, failure.code)
    except MoorageError as error:
        return _say(error.message, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more while closing it.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(args: list[str]) -> int:
    verb, rest = (args[0], args[1:]) if args else ("--help", [])
    if verb in VERBS:
        module = importlib.import_module(f"moorage.cli.{verb}")
        return int(module.run(rest))
    if verb == "--version":
        print(f"moorage {moorage.__version__}")
        return 0
    if verb in ("--help", "-h", "help"):
        print(_help())
        return 0
    raise Failure(f"there is no `moorage {verb}`; `moorage --help` lists what there is", code=2)


def _help() -> str:
    verbs = "\n".join(f"  {verb:<9} {summary}" for verb, summary in VERBS.items())
    return (
        "usage: moorage VERB [options]\n\n"
        "One catalog where every open table format moors.\n\n"
        f"{verbs}\n\n"
        "`moorage VERB --help` tells more. `moorage --version` shows the version."
    )


def _say(line: str, code: int) -> int:
    print(f"moorage: {' '.join(line.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
