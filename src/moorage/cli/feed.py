"""`moorage feed`: prints the changes of a catalog, one entry per line."""

from __future__ import annotations

import signal
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from moorage.cli import arguments
from moorage.cli.server_client import connected

if TYPE_CHECKING:
    from moorage.client.answers import FeedEntry


def run(argv: list[str]) -> int:
    parser = arguments.parser("feed", "Print the changes of a running catalog, oldest first.")
    arguments.add_server(parser)
    arguments.add_json(parser)
    after = arguments.whole_number(at_least=0)
    parser.add_argument("--after", type=after, default=0, metavar="N", help="start after entry N (default 0)")
    parser.add_argument("--follow", action="store_true", help="keep printing new changes until Ctrl-C")
    args = parser.parse_args(argv)
    if args.follow:
        # Python would act on it only after the pending response, or while holding a lock. Nothing needs cleaning up.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    with connected(args.url, token=args.token) as client:
        feed = client.feed
        if args.follow:
            entries = feed.follow(args.after)
        else:
            # Read at least one page: after a restore, `--after` may be past the end, and only the server reports that.
            entries = feed.read(args.after, up_to=max(client.health().seq, args.after + 1))
        for entry in entries:
            print(_as_json(entry) if args.json else _as_line(entry), flush=args.follow)
    return 0


def _as_json(entry: FeedEntry) -> str:
    import msgspec

    return msgspec.json.encode(entry).decode()


def _as_line(entry: FeedEntry) -> str:
    at = datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    return f"{entry.seq:>8}  {at}  {entry.caller:<10}  {entry.api:<8}  {_summary(entry)}"


def _summary(entry: FeedEntry) -> str:
    """Describe an entry, for example `create namespace 'sales'`. Equal changes are counted."""
    changes = Counter([_description(change) for change in entry.changes] + [f"job {job['kind']}" for job in entry.jobs])
    return ", ".join(change if count == 1 else f"{count} times {change}" for change, count in changes.items())


def _description(change: dict[str, Any]) -> str:
    kind = f" {change['kind']}" if "kind" in change else ""
    name = f" '{change['name']}'" if "name" in change else ""
    version = f" version {change['version']}" if "version" in change else ""
    return f"{change.get('type', 'change')}{kind}{name}{version}"
