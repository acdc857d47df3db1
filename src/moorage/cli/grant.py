"""`moorage grant`: grants privileges on an object to a principal."""

from __future__ import annotations

import argparse
from typing import Final

from moorage.cli import arguments
from moorage.cli.server_client import connected

TYPES: Final = (
    "metastore",
    "catalog",
    "schema",
    "table",
    "volume",
    "function",
    "registered_model",
    "pipeline",
    "share",
    "recipient",
    "credential",
    "external_location",
)


def add_object(to: argparse.ArgumentParser) -> None:
    """Add the arguments that name an object."""
    to.add_argument("type", choices=TYPES, help="the type of the object")
    to.add_argument("name", help="its full name, such as lake.sales.orders; for the metastore, any name")


def privileges(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def run(argv: list[str]) -> int:
    parser = arguments.parser("grant", "Grant privileges on an object and everything below it.")
    parser.add_argument("privileges", type=privileges, help='one, or several separated by commas: "USE SCHEMA,SELECT"')
    add_object(parser)
    parser.add_argument("principal", help="a user, service principal or group; `account users` is everyone")
    arguments.add_server(parser)
    args = parser.parse_args(argv)
    with connected(args.url, token=args.token) as client:
        client.access.change_grants(args.type, args.name, args.principal, add=args.privileges)
    print(f"granted {', '.join(args.privileges)} on {args.type} {args.name} to {args.principal}")
    return 0
