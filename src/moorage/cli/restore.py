"""`moorage restore`: restores a backup into a folder or database that has no ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moorage.cli import arguments, digest_report
from moorage.cli.progress import Progress


def run(argv: list[str]) -> int:
    parser = arguments.parser("restore", "Restore a backup into a folder or a database that has no ledger yet.")
    arguments.add_ledger(parser)
    arguments.add_json(parser)
    parser.add_argument(
        "--from", dest="backup", type=Path, required=True, metavar="FILE", help="a file written by `moorage backup`"
    )
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.restore import restore_database, restore_folder

    with Progress() as report:
        if args.database:
            digests = asyncio.run(restore_database(args.backup, args.database, report))
        else:
            digests = restore_folder(args.backup, args.data, report)
    command = f"moorage serve --data {args.data}" if args.data else "moorage serve --database …"
    digest_report.show(digests, f"restored and verified by hash; start the server with `{command}`", as_json=args.json)
    return 0
