"""`moorage migrate`: upgrades the schema of a ledger before servers of a new release start."""

from __future__ import annotations

import asyncio

from moorage.cli import arguments


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "migrate", "Upgrade the schema of a ledger, and do nothing else. A server also does this when it starts."
    )
    arguments.add_ledger(parser)
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.upgrade import upgrade_database, upgrade_folder

    done = asyncio.run(upgrade_database(args.database)) if args.database else upgrade_folder(args.data)
    if done.before == done.after:
        print(f"the schema is up to date (version {done.after})")
    else:
        print(f"the schema was upgraded from version {done.before} to {done.after}")
    return 0
