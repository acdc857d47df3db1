"""`moorage who-can`: shows who holds a privilege on an object, and why."""

from __future__ import annotations

from moorage.cli import arguments
from moorage.cli.grant import add_object
from moorage.cli.server_client import connected


def run(argv: list[str]) -> int:
    parser = arguments.parser(
        "who-can", "Show who holds a privilege on an object, and where it is granted. For those who manage the object."
    )
    parser.add_argument("privilege", help="such as SELECT")
    add_object(parser)
    arguments.add_server(parser)
    args = parser.parse_args(argv)
    wanted = args.privilege.upper().replace("_", " ")
    enough = {wanted} if wanted == "MANAGE" else {wanted, "ALL PRIVILEGES"}
    with connected(args.url, token=args.token) as client:
        found = client.access.effective(args.type, args.name)
    for owner in found.owners:
        print(f"{owner.principal:<30}  owns {owner.type} {owner.name}")
    for assignment in found.privilege_assignments:
        for each in assignment.privileges:
            if each.privilege in enough:
                origin = f"{each.inherited_from_type or args.type} {each.inherited_from_name or args.name}"
                print(f"{assignment.principal:<30}  has {each.privilege} on {origin}")
    return 0
