"""`moorage credential`: keys and roles that open object stores. Secrets are read from standard input or a file."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.server_client import run_verb

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.storage import StorageCredential


def run(argv: list[str]) -> int:
    return run_verb(_parser().parse_args(argv))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("credential", "Manage the keys and roles that open object stores.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    create = verbs.add_parser(
        "create", help="create a credential; its secret is read from standard input", allow_abbrev=False
    )
    create.add_argument("--comment", help="what it is for")
    create.add_argument("--role", metavar="ARN", help="a role of AWS that the server assumes")
    create.add_argument("--key-id", metavar="ID", help="the id of an S3 key; standard input has its secret")
    create.add_argument("--google-key", type=Path, metavar="FILE", help="the JSON file of a service account's key")
    create.add_argument(
        "--azure", metavar="DIRECTORY/APPLICATION", help="a service principal; standard input has its secret"
    )
    create.add_argument("--region", default="us-east-1", help="the region of an S3 store")
    create.add_argument("--endpoint", metavar="URL", help="the address of an S3 store; not set: Amazon S3")
    create.add_argument("--sts-endpoint", metavar="URL", help="where its sessions are issued, if elsewhere")
    create.add_argument("--path-style", action="store_true", help="put bucket names in the path")
    create.set_defaults(act=_create)
    show = verbs.add_parser("show", help="show a credential without its secret", allow_abbrev=False)
    show.set_defaults(act=_show)
    delete = verbs.add_parser("delete", help="delete a credential", allow_abbrev=False)
    delete.add_argument("--force", action="store_true", help="also if external locations use it")
    delete.set_defaults(act=_delete)
    listing = verbs.add_parser("list", help="list credentials", allow_abbrev=False)
    listing.set_defaults(act=_list)
    for each in (create, show, delete):
        each.add_argument("name", help="the name of the credential")
    for each in verbs.choices.values():
        arguments.add_server(each)
        arguments.add_json(each)
    return parser


def _create(client: Client, args: argparse.Namespace) -> int:
    return _print(client.storage_credentials.create(args.name, _opens(args), comment=args.comment), args)


def _opens(args: argparse.Namespace) -> dict[str, Any]:
    """The fields of the request for what the credential is."""
    if args.google_key is not None:
        return {"gcp_service_account_key": _google_key(args.google_key)}
    if args.azure is not None:
        directory, _, application = args.azure.partition("/")
        principal = {"directory_id": directory, "application_id": application, "client_secret": _secret()}
        return {"azure_service_principal": principal}
    opens: dict[str, Any] = {
        "s3_store": {
            "region": args.region,
            "endpoint": args.endpoint,
            "sts_endpoint": args.sts_endpoint,
            "path_style": args.path_style,
        }
    }
    if args.role is not None:
        opens["aws_iam_role"] = {"role_arn": args.role}
    if args.key_id is not None:
        opens["aws_access_key"] = {"access_key_id": args.key_id, "secret_access_key": _secret()}
    return opens


def _google_key(path: Path) -> dict[str, str]:
    import msgspec

    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        names = {"email": "client_email", "private_key_id": "private_key_id", "private_key": "private_key"}
        return {field: found[name] for field, name in names.items()}
    except (OSError, msgspec.DecodeError, KeyError):
        raise Failure(f"{path} is not the JSON file of a service account's key", code=USAGE) from None


def _secret() -> str:
    """The secret, from standard input: an argument would be visible to all users of the machine."""
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("secret: ")
    return sys.stdin.read().strip()


def _show(client: Client, args: argparse.Namespace) -> int:
    return _print(client.storage_credentials.get(args.name), args)


def _delete(client: Client, args: argparse.Namespace) -> int:
    client.storage_credentials.delete(args.name, force=args.force)
    print("{}" if args.json else f"credential '{args.name}' is deleted")
    return 0


def _list(client: Client, args: argparse.Namespace) -> int:
    for credential in client.storage_credentials.list():
        print(_json(credential) if args.json else f"{credential.name:<24}  {_described(credential)}".rstrip())
    return 0


def _print(credential: StorageCredential, args: argparse.Namespace) -> int:
    if args.json:
        print(_json(credential))
        return 0
    print(f"credential  {credential.name}")
    print(f"opens       {_described(credential)}")
    if credential.aws_iam_role is not None:
        print(f"external id {credential.aws_iam_role['external_id']}")
    if credential.comment:
        print(f"comment     {credential.comment}")
    return 0


def _described(credential: StorageCredential) -> str:
    if credential.gcp_service_account_key is not None:
        return f"Google Cloud as {credential.gcp_service_account_key['email']}"
    if credential.azure_service_principal is not None:
        return f"Azure as {credential.azure_service_principal['application_id']}"
    store = credential.s3_store or {}
    facts = [store.get("endpoint") or f"Amazon S3 in {store.get('region')}"]
    if credential.aws_access_key is not None:
        facts.append(f"with key {credential.aws_access_key['access_key_id']}")
    if credential.aws_iam_role is not None:
        facts.append(f"as {credential.aws_iam_role['role_arn']}")
    return " ".join(facts)


def _json(credential: StorageCredential) -> str:
    import msgspec

    return msgspec.json.encode(credential).decode()
