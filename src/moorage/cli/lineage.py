"""`moorage lineage TABLE`: which inputs at which versions made a version of a table, and what was made of it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from moorage.cli import arguments
from moorage.cli.failure import USAGE, Failure
from moorage.cli.server_client import connected, table_path

if TYPE_CHECKING:
    from moorage.client.lineage import LineageInput, LineageStep, TableLineage


def run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    if args.version is not None and not args.version.isdigit():
        raise Failure(f"--version must be a whole number, not {args.version!r}", code=USAGE)
    with connected(args.url, token=args.token) as client:
        found = client.lineage.get(
            *table_path(args.table), version=args.version, direction=args.direction, limit=args.limit
        )
    for line in _output(found, args):
        print(line)
    return 0


def _parser() -> arguments.Parser:
    parser = arguments.parser("lineage", "Show which versions of which tables a version of a table was made of.")
    parser.add_argument("table", metavar="CATALOG.NAMESPACE.TABLE", help="the full name of the table")
    parser.add_argument(
        "--version",
        metavar="N",
        help="a version of a Delta or Lance table, or a snapshot id of an Iceberg table (default: the newest one that "
        "a job made; with --downstream, every version)",
    )
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--upstream", dest="direction", action="store_const", const="upstream", default="upstream")
    way.add_argument("--downstream", dest="direction", action="store_const", const="downstream")
    parser.add_argument("--limit", type=int, default=100, help="the most steps to show (default 100)")
    parser.add_argument("--openlineage", action="store_true", help="print events of OpenLineage, one per line")
    arguments.add_server(parser)
    arguments.add_json(parser)
    return parser


def _output(found: TableLineage, args: argparse.Namespace) -> Iterator[str]:
    if args.openlineage:
        from moorage.client.openlineage import to_events

        for event in to_events(found.steps, args.url):
            yield msgspec.json.encode(event).decode()
    elif args.json:
        yield msgspec.json.encode(found).decode()
    else:
        yield from _lines(found, args.direction)


def _lines(found: TableLineage, direction: str) -> Iterator[str]:
    at = "" if found.version is None else f" at version {found.version}"
    yield f"{found.table}{at}, {direction}"
    for step in found.steps:
        versions = step.output.versions
        made = (
            "" if not versions else f"@{versions[-1]}" + (f" (and {len(versions) - 1} before)" if versions[1:] else "")
        )
        yield f"{step.output.table}{made}  by {_job(step)}"
        for each in step.inputs:
            yield f"  <- {_input(each, step)}"
        for source in step.sources:
            yield f"  <- {source}"
    if not found.steps:
        yield "no job is recorded" + ("" if direction == "downstream" else " as its origin")
    if not found.complete:
        yield "there are more steps; raise --limit"


def _made(versions: tuple[str, ...]) -> str:
    earlier = f" (and {len(versions) - 1} before)" if len(versions) > 1 else ""
    return f"@{versions[-1]}{earlier}" if versions else ""


def _job(step: LineageStep) -> str:
    at = datetime.fromtimestamp((step.ended_at_ms or step.started_at_ms) / 1000, UTC).isoformat(" ", "seconds")
    return f"{step.kind} {step.pipeline or ''}".rstrip() + f", job {step.job}, {at.removesuffix('+00:00')}"


def _input(each: LineageInput, step: LineageStep) -> str:
    if each.table is None:
        return "a table that you may not see"
    name = "its earlier rows" if each.id == step.output.id else each.table
    version = "empty" if each.version is None else each.version
    return f"{name}@{version}" + (f" to {each.until}" if each.until else "")
