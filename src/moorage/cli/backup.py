"""`moorage backup`: copies a ledger into one file while its servers run."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moorage.cli import arguments, digest_report
from moorage.cli.progress import Progress


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "backup", "Copy a consistent snapshot of a ledger into one file. Its servers can keep running."
    )
    arguments.add_ledger(parser)
    arguments.add_json(parser)
    parser.add_argument("--to", type=Path, required=True, metavar="FILE", help="the file to create; it must not exist")
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.backup import back_up_database, back_up_folder

    with Progress() as report:
        if args.database:
            digests = asyncio.run(back_up_database(args.database, args.to, report))
        else:
            digests = back_up_folder(args.data, args.to, report)
    digest_report.show(digests, f"the backup was written to {args.to}", as_json=args.json)
    return 0
