"""`moorage share`: shares tables and schemas of a catalog with recipients."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.server_client import run_verb

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.sharing import Partition, Share, SharedObject


def run(argv: list[str]) -> int:
    return run_verb(_parser().parse_args(argv))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("share", "Share tables and schemas of a running catalog with recipients.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    create = verbs.add_parser("create", help="create an empty share", allow_abbrev=False)
    create.add_argument("--comment", help="what is in the share")
    create.set_defaults(act=_create)
    add = verbs.add_parser("add", help="add tables, or schemas with all their tables", allow_abbrev=False)
    add.add_argument("--as", dest="shared_as", metavar="NAME", help="the name that recipients see: SCHEMA.TABLE")
    add.add_argument("--history", action="store_true", help="share former versions and the change data feed too")
    add.add_argument(
        "--partition",
        action="append",
        default=[],
        metavar="COLUMN=VALUE[,…]",
        help="share only rows with these partition values; may be repeated, then one of them must hold",
    )
    add.set_defaults(act=_add)
    remove = verbs.add_parser("remove", help="remove tables or schemas", allow_abbrev=False)
    remove.set_defaults(act=_remove)
    grant = verbs.add_parser("grant", help="let recipients read the share", allow_abbrev=False)
    grant.set_defaults(act=_grant)
    revoke = verbs.add_parser("revoke", help="end the access of recipients", allow_abbrev=False)
    revoke.set_defaults(act=_revoke)
    show = verbs.add_parser("show", help="show a share with its objects and recipients", allow_abbrev=False)
    show.set_defaults(act=_show)
    delete = verbs.add_parser("delete", help="delete a share; its tables stay", allow_abbrev=False)
    delete.set_defaults(act=_delete)
    listing = verbs.add_parser("list", help="list shares", allow_abbrev=False)
    listing.set_defaults(act=_list)
    for each in (create, add, remove, grant, revoke, show, delete):
        each.add_argument("share", help="the name of the share")
    for each in (add, remove):
        each.add_argument("objects", nargs="+", metavar="CATALOG.SCHEMA[.TABLE]", help="a table or a schema")
    for each in (grant, revoke):
        each.add_argument("recipients", nargs="+", metavar="RECIPIENT", help="the name of a recipient")
    for each in verbs.choices.values():
        arguments.add_server(each)
        arguments.add_json(each)
    return parser


def _create(client: Client, args: argparse.Namespace) -> int:
    return _print(client, client.shares.create(args.share, comment=args.comment), args)


def _add(client: Client, args: argparse.Namespace) -> int:
    if args.shared_as and len(args.objects) > 1:
        raise Failure("--as names one object; add the others without it", code=USAGE)
    partitions = [_partition(text) for text in args.partition]
    added = client.shares.add(
        args.share, *args.objects, shared_as=args.shared_as, history=args.history, partitions=partitions
    )
    return _print(client, added, args)


def _partition(text: str) -> Partition:
    from moorage.client.sharing import Partition, PartitionValue

    values = []
    for part in text.split(","):
        column, equals, value = part.partition("=")
        if not column or not equals:
            raise Failure(f"--partition expects COLUMN=VALUE, not {part!r}", code=USAGE)
        values.append(PartitionValue(name=column, value=value))
    return Partition(values=tuple(values))


def _remove(client: Client, args: argparse.Namespace) -> int:
    return _print(client, client.shares.remove(args.share, *args.objects), args)


def _grant(client: Client, args: argparse.Namespace) -> int:
    client.shares.grant(args.share, *args.recipients)
    return _show(client, args)


def _revoke(client: Client, args: argparse.Namespace) -> int:
    client.shares.revoke(args.share, *args.recipients)
    return _show(client, args)


def _show(client: Client, args: argparse.Namespace) -> int:
    return _print(client, client.shares.get(args.share), args)


def _delete(client: Client, args: argparse.Namespace) -> int:
    client.shares.delete(args.share)
    print("{}" if args.json else f"share '{args.share}' is deleted")
    return 0


def _list(client: Client, args: argparse.Namespace) -> int:
    for share in client.shares.list():
        print(_json(share) if args.json else f"{share.name:<24}  {share.comment or ''}".rstrip())
    return 0


def _print(client: Client, share: Share, args: argparse.Namespace) -> int:
    if args.json:
        print(_json(share))
        return 0
    print(f"share       {share.name}")
    if share.comment:
        print(f"comment     {share.comment}")
    print(f"recipients  {', '.join(client.shares.recipients(share.name)) or 'none'}")
    for each in share.objects or ():
        print(f"  {each.shared_as:<32} {_described(each)}")
    return 0


def _described(shared: SharedObject) -> str:
    facts = [f"{shared.data_object_type.lower()} {shared.name}"]
    if shared.history_data_sharing_status == "ENABLED":
        facts.append("with history")
    if shared.start_version is not None:
        facts.append(f"from version {shared.start_version}")
    facts += [
        "only " + " and ".join(f"{each.name} {each.op} {each.value}" for each in partition.values)
        for partition in shared.partitions
    ]
    if shared.status != "ACTIVE":
        facts.append("not readable: it was dropped")
    return ", ".join(facts)


def _json(share: Share) -> str:
    import msgspec

    return msgspec.json.encode(share).decode()
