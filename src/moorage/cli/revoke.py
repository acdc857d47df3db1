"""`moorage revoke`: revokes privileges on an object from a principal."""

from __future__ import annotations

from moorage.cli import arguments
from moorage.cli.grant import add_object, privileges
from moorage.cli.server_client import connected


def run(argv: list[str]) -> int:
    parser = arguments.parser("revoke", "Revoke privileges that were granted on this object itself.")
    parser.add_argument("privileges", type=privileges, help="one, or several separated by commas")
    add_object(parser)
    parser.add_argument("principal", help="a user, service principal or group")
    arguments.add_server(parser)
    args = parser.parse_args(argv)
    with connected(args.url, token=args.token) as client:
        client.access.change_grants(args.type, args.name, args.principal, remove=args.privileges)
    print(f"revoked {', '.join(args.privileges)} on {args.type} {args.name} from {args.principal}")
    return 0
