"""`moorage user`: creates, lists and deletes users and service principals."""

from __future__ import annotations

import argparse

from moorage.cli import arguments
from moorage.cli.server_client import connected


def run(argv: list[str]) -> int:
    parser = arguments.parser("user", "Create, list and delete users and service principals. For administrators.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    for verb, summary in (("create", "create a user"), ("delete", "delete a user, and revoke its tokens")):
        one = verbs.add_parser(verb, help=summary, allow_abbrev=False)
        one.add_argument("name", help="the name of the user in grants, such as an e-mail address")
    verbs.add_parser("list", help="list users", allow_abbrev=False)
    for each in verbs.choices.values():
        arguments.add_server(each)
        each.add_argument("--service", action="store_true", help="a service principal: a program, not a person")
    return _act(parser.parse_args(argv))


def _act(args: argparse.Namespace) -> int:
    kind = "ServicePrincipals" if args.service else "Users"
    with connected(args.url, token=args.token) as client:
        match args.verb:
            case "create":
                made = client.access.create(kind, args.name)
                print(f"created {made.name}; give it a token with `moorage token create --for {made.name}`")
            case "delete":
                client.access.delete(kind, args.name)
                print(f"deleted {args.name}")
            case _:
                for user in client.access.principals(kind):
                    groups = ", ".join(group["display"] for group in user.groups)
                    print(f"{user.name:<40}  {'' if user.active else 'inactive'}{groups}".rstrip())
    return 0
