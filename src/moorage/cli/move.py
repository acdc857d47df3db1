"""`moorage move`: from one server with SQLite to many with PostgreSQL."""

from __future__ import annotations

import asyncio
from pathlib import Path

from moorage.cli import arguments, carried
from moorage.cli.progress import Progress


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "move", "Copy the ledger of a data folder into an empty PostgreSQL database. Stop its server first."
    )
    arguments.add_json(parser)
    parser.add_argument("--from-data", type=Path, required=True, metavar="DIR", help="the data folder of the catalog")
    parser.add_argument(
        "--to-database", type=arguments.database_url, required=True, metavar="URL", help="a postgresql:// URL"
    )
    args = parser.parse_args(argv)

    from moorage.ledger.transfer.move import move

    with Progress() as tell:
        digests = asyncio.run(move(args.from_data, args.to_database, tell))
    carried.show(
        digests,
        f"moved and compared by hash; from now on start servers with `--data {args.from_data} --database …` only: "
        "the old ledger in the folder no longer counts",
        as_json=args.json,
    )
    return 0
