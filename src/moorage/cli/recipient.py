"""`moorage recipient`: creates the recipients of shares, and rotates their tokens."""

from __future__ import annotations

import argparse
import os
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.server_client import run_verb

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.sharing import Recipient

_DAY_MS: Final = 24 * 60 * 60 * 1000


def run(argv: list[str]) -> int:
    return run_verb(_parser().parse_args(argv))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("recipient", "Create the recipients of shares, and rotate their tokens.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    create = verbs.add_parser("create", help="create a recipient and print its activation link", allow_abbrev=False)
    create.add_argument("--comment", help="who the recipient is")
    days = arguments.whole_number(at_least=1)
    create.add_argument("--days", type=days, metavar="N", help="how long its token is valid (default 365)")
    create.add_argument(
        "--address",
        action="append",
        default=[],
        metavar="IP",
        help="an IP address or network that it may read from; may be repeated (default: any)",
    )
    create.add_argument(
        "--property",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property that partition filters can refer to; may be repeated",
    )
    create.set_defaults(act=_create)
    rotate = verbs.add_parser("rotate", help="replace its token: print a new activation link", allow_abbrev=False)
    seconds = arguments.whole_number(at_least=0)
    keep = "how long its current token stays valid (default 0)"
    rotate.add_argument("--keep-seconds", type=seconds, default=0, metavar="N", help=keep)
    rotate.set_defaults(act=_rotate)
    profile = verbs.add_parser("profile", help="use its activation link: get the profile, once", allow_abbrev=False)
    profile.add_argument("--to", metavar="FILE", help="write the profile to this file (default: print it)")
    profile.set_defaults(act=_profile)
    show = verbs.add_parser("show", help="show a recipient", allow_abbrev=False)
    show.set_defaults(act=_show)
    delete = verbs.add_parser("delete", help="delete a recipient; its tokens end immediately", allow_abbrev=False)
    delete.set_defaults(act=_delete)
    listing = verbs.add_parser("list", help="list recipients", allow_abbrev=False)
    listing.set_defaults(act=_list)
    accesses = verbs.add_parser("accesses", help="list what a recipient read, the oldest first", allow_abbrev=False)
    days_back = arguments.whole_number(at_least=1)
    accesses.add_argument("--days", type=days_back, default=1, metavar="N", help="of the last N days (default 1)")
    accesses.set_defaults(act=_accesses)
    for each in (create, rotate, show, delete, accesses):
        each.add_argument("recipient", help="the name of the recipient")
    profile.add_argument("recipient", help="the name of the recipient, or its activation link")
    for each in verbs.choices.values():
        arguments.add_server(each)
        arguments.add_json(each)
    return parser


def _create(client: Client, args: argparse.Namespace) -> int:
    expires_at_ms = None if args.days is None else _now_ms() + args.days * _DAY_MS
    created = client.recipients.create(
        args.recipient,
        comment=args.comment,
        expires_at_ms=expires_at_ms,
        addresses=args.address,
        properties=dict(_property(text) for text in args.property),
    )
    return _print(created, args)


def _property(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise Failure(f"--property expects KEY=VALUE, not {text!r}", code=USAGE)
    return key, value


def _rotate(client: Client, args: argparse.Namespace) -> int:
    return _print(client.recipients.rotate(args.recipient, keep_seconds=args.keep_seconds), args)


def _show(client: Client, args: argparse.Namespace) -> int:
    return _print(client.recipients.get(args.recipient), args)


def _delete(client: Client, args: argparse.Namespace) -> int:
    client.recipients.delete(args.recipient)
    print("{}" if args.json else f"recipient '{args.recipient}' is deleted")
    return 0


def _list(client: Client, args: argparse.Namespace) -> int:
    for recipient in client.recipients.list():
        print(_json(recipient) if args.json else f"{recipient.name:<24}  {_state(recipient)}")
    return 0


def _accesses(client: Client, args: argparse.Namespace) -> int:
    import msgspec

    for each in client.recipients.accesses(args.recipient, since_ms=_now_ms() - args.days * _DAY_MS):
        if args.json:
            print(msgspec.json.encode(each).decode())
            continue
        at = datetime.fromtimestamp(each.last_at_ms / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
        what = ".".join(filter(None, (each.share, each.table)))
        version = "" if each.version is None else f" version {each.version}"
        read = f"{each.files:,} files, {each.bytes:,} bytes" if each.files else ""
        facts = (f"{each.requests:,} × {each.operation}", f"{what}{version}", each.address, each.refusal or read)
        print("  ".join((at, *filter(None, facts))))
    return 0


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _profile(client: Client, args: argparse.Namespace) -> int:
    import msgspec

    link = args.recipient
    if "/" not in link:
        found = client.recipients.get(link)
        if found.activation_url is None:
            raise Failure(
                f"the activation link of recipient '{found.name}' was used already; "
                f"run `moorage recipient rotate {found.name}` for a new one"
            )
        link = found.activation_url
    # The file is opened before the link is used up: a path that cannot be written must not lose the token.
    file = _open_private(args.to) if args.to else None
    text = msgspec.json.format(msgspec.json.encode(client.recipients.profile(link)), indent=2)
    if file is None:
        print(text.decode())
        return 0
    with os.fdopen(file, "wb") as stream:
        stream.write(text + b"\n")
    print(args.to)
    return 0


def _open_private(path: str) -> int:
    """A new file that only its owner can read."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from None


def _print(recipient: Recipient, args: argparse.Namespace) -> int:
    if args.json:
        print(_json(recipient))
        return 0
    print(f"recipient   {recipient.name}")
    if recipient.comment:
        print(f"comment     {recipient.comment}")
    print(f"state       {_state(recipient)}")
    if recipient.activation_url is not None:
        print(f"activation  {recipient.activation_url}")
    return 0


def _state(recipient: Recipient) -> str:
    if recipient.expiration_time is None:
        return f"authenticates by {recipient.authentication_type}"
    until = datetime.fromtimestamp(recipient.expiration_time / 1000, UTC).date().isoformat()
    link = ", with an unused activation link" if recipient.activation_url else ""
    return f"{'activated' if recipient.activated else 'not activated'}, token until {until}{link}"


def _json(recipient: Recipient) -> str:
    import msgspec

    return msgspec.json.encode(recipient).decode()
