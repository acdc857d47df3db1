"""`moorage backup`: one file, while servers run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moorage.cli import arguments, carried
from moorage.cli.progress import Progress


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "backup", "Copy a ledger, as it is at one moment, into one file. Its servers may run meanwhile."
    )
    arguments.add_ledger(parser)
    arguments.add_json(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="the file to write; it must not exist")
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.backup import back_up_database, back_up_folder

    with Progress() as tell:
        if args.database:
            digests = asyncio.run(back_up_database(args.database, args.to, tell))
        else:
            digests = back_up_folder(args.data, args.to, tell)
    carried.show(digests, f"the backup is {args.to}", as_json=args.json)
    return 0
