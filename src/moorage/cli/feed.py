"""`moorage feed`: every change, one line each."""

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
    parser = arguments.parser("feed", "Show the changes of a running catalog, oldest first.")
    arguments.add_url(parser)
    arguments.add_json(parser)
    after = arguments.whole_number(at_least=0)
    parser.add_argument("--after", type=after, default=0, metavar="N", help="begin behind this entry (0)")
    parser.add_argument("--follow", action="store_true", help="go on with what happens from now on, until Ctrl-C")
    args = parser.parse_args(argv)
    if args.follow:
        # Python hears of it after the answer that it waits for, or inside of a lock; and there is nothing to tidy up.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    with connected(args.url) as client:
        feed = client.feed
        if args.follow:
            entries = feed.follow(args.after)
        else:
            # One page at least: the server tells whoever is ahead of it, since a restore, that it has no such entry.
            entries = feed.read(args.after, up_to=max(client.health().seq, args.after + 1))
        for entry in entries:
            print(_as_json(entry) if args.json else _as_line(entry), flush=args.follow)
    return 0


def _as_json(entry: FeedEntry) -> str:
    import msgspec

    return msgspec.json.encode(entry).decode()


def _as_line(entry: FeedEntry) -> str:
    at = datetime.fromtimestamp(entry.at_ms / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
    return f"{entry.seq:>8}  {at}  {entry.caller:<10}  {entry.api:<8}  {_story(entry)}"


def _story(entry: FeedEntry) -> str:
    """`create namespace 'sales'`; changes that are alike are counted."""
    words = Counter([_words(change) for change in entry.changes] + [f"job {job['kind']}" for job in entry.jobs])
    return ", ".join(word if count == 1 else f"{count} times {word}" for word, count in words.items())


def _words(change: dict[str, Any]) -> str:
    kind = f" {change['kind']}" if "kind" in change else ""
    name = f" '{change['name']}'" if "name" in change else ""
    version = f" version {change['version']}" if "version" in change else ""
    return f"{change.get('type', 'change')}{kind}{name}{version}"
