"""`moorage admin reset`: gives the administrator a new token, for an operator who has access to the ledger."""

from __future__ import annotations

import asyncio

from moorage.cli import arguments
from moorage.cli.failure import Failure
from moorage.cli.serve import show_token


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "admin", "Give the administrator a new token, revoke its other tokens, and activate it if necessary."
    )
    parser.add_argument("action", choices=["reset"], help="reset: make a new token")
    arguments.add_ledger(parser)
    args = parser.parse_args(argv)

    from moorage.server.operator import reset_token

    if args.data is not None and not args.data.is_dir():
        raise Failure(f"there is no folder {args.data}; name the data folder of a server")

    show_token(asyncio.run(reset_token(data=args.data, database=args.database)))
    return 0
