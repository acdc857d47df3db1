"""`moorage migrate`: the schema is brought up to date before servers of a new release start."""

from __future__ import annotations

import asyncio

from moorage.cli import arguments


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "migrate", "Bring the schema of a ledger up to date. Servers also do it when they start; this does only it."
    )
    arguments.add_ledger(parser)
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.upgrade import upgrade_database, upgrade_folder

    done = asyncio.run(upgrade_database(args.database)) if args.database else upgrade_folder(args.data)
    if done.before == done.after:
        print(f"the schema is up to date (version {done.after})")
    else:
        print(f"the schema went from version {done.before} to {done.after}")
    return 0
