"""`moorage group`: creates and deletes groups, and changes their members."""

from __future__ import annotations

import argparse

from moorage.cli import arguments
from moorage.cli.server_client import connected


def run(argv: list[str]) -> int:
    parser = arguments.parser("group", "Create, list, show and delete groups, and change members. For administrators.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    for verb, summary in (
        ("create", "create a group"),
        ("delete", "delete a group"),
        ("show", "show the members of a group"),
        ("add", "add a user, service principal or group to a group"),
        ("remove", "remove a member from a group"),
    ):
        one = verbs.add_parser(verb, help=summary, allow_abbrev=False)
        one.add_argument("name", help="the name of the group")
        if verb in ("add", "remove"):
            one.add_argument("member", help="the name of the member")
    verbs.add_parser("list", help="list groups", allow_abbrev=False)
    for each in verbs.choices.values():
        arguments.add_server(each)
    return _act(parser.parse_args(argv))


def _act(args: argparse.Namespace) -> int:
    with connected(args.url, token=args.token) as client:
        access = client.access
        match args.verb:
            case "create":
                print(f"created {access.create('Groups', args.name).name}")
            case "delete":
                access.delete("Groups", args.name)
                print(f"deleted {args.name}")
            case "show":
                for member in access.find("Groups", args.name).members:
                    print(member["display"])
            case "add" | "remove":
                access.change_member(args.name, args.member, op=args.verb)
                print(f"{args.member} is {'now' if args.verb == 'add' else 'no longer'} a member of {args.name}")
            case _:
                for group in access.principals("Groups"):
                    print(group.name)
    return 0
