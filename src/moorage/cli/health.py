"""`moorage health TABLE`: shows what is wrong with the files of a table, and the work that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moorage.cli import arguments
from moorage.cli.job_text import as_row, bar
from moorage.cli.server_client import connected, table_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moorage.client.answers import TableHealth


def run(argv: list[str]) -> int:
    parser = arguments.parser("health", "Show what is wrong with the files of a table, and the work that mends it.")
    parser.add_argument("table", metavar="CATALOG.NAMESPACE.TABLE", help="the full name of the table")
    arguments.add_server(parser)
    arguments.add_json(parser)
    args = parser.parse_args(argv)
    with connected(args.url, token=args.token) as client:
        found = client.namespaces.health(*table_path(args.table))
    if args.json:
        import msgspec

        print(msgspec.json.encode(found).decode())
    else:
        print("\n".join(_lines(args.table, found)))
    return 0


def _lines(name: str, found: TableHealth) -> Iterator[str]:
    facts = found.facts
    yield f"{name} ({found.format}, version {facts['version']:,})"
    yield f"health       {bar(found.score / 100)}"
    rows = "" if facts.get("rows") is None else f", {facts['rows']:,} rows"
    yield f"files        {facts['files']:,} with {facts['bytes']:,} bytes{rows}"
    yield f"policy       {found.policy} ({f'set by {found.policy_set_by}' if found.policy_set_by else 'the default'})"
    if found.policy_problem:
        yield f"             {found.policy_problem}"
    for each in found.findings:
        due = f"due: {each.work}" if each.due else each.work or "advice"
        yield f"- {each.problem} ({each.severity:.0%}, {due}): {each.reason}"
        yield f"  {each.advice}"
    if not found.findings:
        yield "no problems were found"
    for job in found.jobs:
        yield as_row(job)
