"""`moorage move`: moves a ledger from SQLite (one server) to PostgreSQL (several servers)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moorage.cli import arguments, digest_report
from moorage.cli.progress import Progress


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "move", "Copy the ledger of a data folder into a PostgreSQL database that has none. Stop its server first."
    )
    arguments.add_json(parser)
    parser.add_argument("--from-data", type=Path, required=True, metavar="DIR", help="the data folder of the catalog")
    parser.add_argument(
        "--to-database",
        type=arguments.database_url,
        required=True,
        metavar="URL",
        help="the postgresql:// URL of the database",
    )
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.move import move

    with Progress() as report:
        digests = asyncio.run(move(args.from_data, args.to_database, report))
    digest_report.show(
        digests,
        "moved and verified by hash; from now on, always start servers with "
        f"`--data {args.from_data} --database …`: the old ledger in that folder is no longer used",
        as_json=args.json,
    )
    return 0
