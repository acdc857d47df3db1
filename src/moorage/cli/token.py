"""`moorage token`: creates, lists and revokes tokens."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from moorage.cli import arguments
from moorage.cli.server_client import connected
from moorage.core.tokens import parse_token


def run(argv: list[str]) -> int:
    parser = arguments.parser("token", "Create, list and revoke tokens.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    create = verbs.add_parser("create", help="create a token and print it", allow_abbrev=False)
    create.add_argument("--comment", help="what the token is for")
    create.add_argument("--days", type=arguments.whole_number(at_least=1), metavar="N", help="expire after N days")
    create.add_argument("--read-only", action="store_true", help="the token can change nothing")
    listing = verbs.add_parser("list", help="list tokens without their secrets", allow_abbrev=False)
    revoke = verbs.add_parser("revoke", help="revoke a token", allow_abbrev=False)
    revoke.add_argument("id", help="its id, as `moorage token list` shows it, or the token itself")
    for each in (create, listing):
        each.add_argument("--for", dest="principal", metavar="NAME", help="for administrators: another user's tokens")
    for each in verbs.choices.values():
        arguments.add_server(each)
    return _act(parser.parse_args(argv))


def _act(args: argparse.Namespace) -> int:
    with connected(args.url, token=args.token) as client:
        match args.verb:
            case "create":
                scope = "read" if args.read_only else "all"
                made = client.access.create_token(args.principal, comment=args.comment, days=args.days, scope=scope)
                print(made.token)
            case "revoke":
                found = parse_token(args.id)
                id = args.id if found is None else found.id
                client.access.revoke_token(id)
                print(f"revoked {id}")
            case _:
                for token in client.access.tokens(args.principal):
                    used = "never used" if token.last_used_at is None else f"used {_day(token.last_used_at)}"
                    ends = "does not expire" if token.expires_at is None else f"expires {_day(token.expires_at)}"
                    print(f"{token.token_id}  {token.scope:<4}  {ends}, {used}  {token.comment or ''}".rstrip())
    return 0


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
