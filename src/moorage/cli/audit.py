"""`moorage audit`: prints what principals did and what they were refused, one line for equal requests."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from moorage.cli import arguments
from moorage.cli.server_client import connected

if TYPE_CHECKING:
    from moorage.client.audit import AuditLine

_DAY_MS = 24 * 60 * 60 * 1000


def run(argv: list[str]) -> int:
    parser = arguments.parser("audit", "Print what principals did and what they were refused, oldest first.")
    arguments.add_server(parser)
    arguments.add_json(parser)
    days = arguments.whole_number(at_least=1)
    parser.add_argument("--days", type=days, default=1, metavar="N", help="of the last N days (default 1)")
    parser.add_argument("--principal", default="", metavar="NAME", help="only requests of this principal")
    parser.add_argument("--api", default="", metavar="NAME", help="only this API, such as iceberg")
    parser.add_argument("--operation", default="", metavar="ID", help="only this operation, such as createTable")
    parser.add_argument("--object", default="", metavar="NAME", help="only this object and everything in it")
    parser.add_argument("--outcome", default="", choices=["allowed", "denied", "failed"], help="only this outcome")
    args = parser.parse_args(argv)
    with connected(args.url, token=args.token) as client:
        lines = client.audit.list(
            since_ms=time.time_ns() // 1_000_000 - args.days * _DAY_MS,
            principal=args.principal,
            api=args.api,
            operation=args.operation,
            below=args.object,
            outcome=args.outcome,
        )
        for line in lines:
            print(_as_json(line) if args.json else _as_text(line))
    return 0


def _as_json(line: AuditLine) -> str:
    import msgspec

    return msgspec.json.encode(line).decode()


def _as_text(line: AuditLine) -> str:
    at = datetime.fromtimestamp(line.last_at_ms / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    what = f"{line.requests:,} × {line.api} {line.operation}"
    facts = (line.outcome, line.principal or "unknown caller", what, line.object, line.address, line.reason)
    return "  ".join((at, *filter(None, facts)))
