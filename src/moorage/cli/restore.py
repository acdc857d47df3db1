"""`moorage restore`: a backup comes to life where no ledger is yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moorage.cli import arguments, carried
from moorage.cli.progress import Progress


def run(argv: list[str]) -> int:
    parser = arguments.parser("restore", "Bring a backup to life, in a folder or a database that has no ledger yet.")
    arguments.add_ledger(parser)
    arguments.add_json(parser)
    parser.add_argument(
        "--from", dest="backup", type=Path, required=True, metavar="FILE", help="what `moorage backup` wrote"
    )
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.restore import restore_database, restore_folder

    with Progress() as tell:
        if args.database:
            digests = asyncio.run(restore_database(args.backup, args.database, tell))
        else:
            digests = restore_folder(args.backup, args.data, tell)
    where = f"moorage serve --data {args.data}" if args.data else "moorage serve --database …"
    carried.show(digests, f"restored and compared by hash; start it with `{where}`", as_json=args.json)
    return 0
