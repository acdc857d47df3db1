"""`moorage location`: folders in object stores, each with the credential that opens it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from moorage.cli import arguments
from moorage.cli.server_client import run_verb

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.storage import ExternalLocation


def run(argv: list[str]) -> int:
    return run_verb(_parser().parse_args(argv))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("location", "Manage the external locations of a running catalog.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    create = verbs.add_parser("create", help="let the catalog use a folder of an object store", allow_abbrev=False)
    create.add_argument("--comment", help="what is in the folder")
    create.add_argument("--no-check", action="store_true", help="do not list the folder with the credential first")
    create.set_defaults(act=_create)
    show = verbs.add_parser("show", help="show a location", allow_abbrev=False)
    show.set_defaults(act=_show)
    delete = verbs.add_parser("delete", help="delete a location; its files stay", allow_abbrev=False)
    delete.add_argument("--force", action="store_true", help="also if objects have files in it")
    delete.set_defaults(act=_delete)
    listing = verbs.add_parser("list", help="list locations", allow_abbrev=False)
    listing.set_defaults(act=_list)
    for each in (create, show, delete):
        each.add_argument("name", help="the name of the location")
    create.add_argument("folder", metavar="URL", help="s3://bucket/folder, gs://… or abfss://…")
    create.add_argument("credential", help="the name of the credential that opens it")
    for each in verbs.choices.values():
        arguments.add_server(each)
        arguments.add_json(each)
    return parser


def _create(client: Client, args: argparse.Namespace) -> int:
    made = client.external_locations.create(
        args.name, args.folder, args.credential, comment=args.comment, check=not args.no_check
    )
    return _print(made, args)


def _show(client: Client, args: argparse.Namespace) -> int:
    return _print(client.external_locations.get(args.name), args)


def _delete(client: Client, args: argparse.Namespace) -> int:
    client.external_locations.delete(args.name, force=args.force)
    print("{}" if args.json else f"external location '{args.name}' is deleted")
    return 0


def _list(client: Client, args: argparse.Namespace) -> int:
    for location in client.external_locations.list():
        print(_json(location) if args.json else f"{location.name:<24}  {location.url}")
    return 0


def _print(location: ExternalLocation, args: argparse.Namespace) -> int:
    if args.json:
        print(_json(location))
        return 0
    print(f"location    {location.name}")
    print(f"folder      {location.url}")
    print(f"credential  {location.credential_name or 'deleted'}")
    if location.comment:
        print(f"comment     {location.comment}")
    return 0


def _json(location: ExternalLocation) -> str:
    import msgspec

    return msgspec.json.encode(location).decode()
