"""`moorage status`: shows the version, the last entry and the open jobs of a running catalog."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from moorage.cli import arguments
from moorage.cli.server_client import connected


def run(argv: list[str]) -> int:
    parser = arguments.parser("status", "Show the version, the last entry and the open jobs of a running catalog.")
    arguments.add_server(parser)
    arguments.add_json(parser)
    args = parser.parse_args(argv)
    with connected(args.url, token=args.token, patience_s=0.0) as client:
        health = client.health()
    if args.json:
        import msgspec

        print(msgspec.json.encode({"url": args.url, **msgspec.structs.asdict(health)}).decode())
        return 0
    last = datetime.fromtimestamp(health.at_ms / 1000, UTC).isoformat(" ", "seconds")
    print(f"{args.url} is ready: Moorage {health.version}, ledger in {health.ledger}")
    print(f"up for       {timedelta(seconds=round(health.uptime_seconds))}")
    print(f"last entry   {health.seq:,} at {last}")
    print(f"open jobs    {health.open_jobs:,}")
    print(f"metastore    {health.metastore_id}")
    return 0
