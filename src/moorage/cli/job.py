"""`moorage job`: lists, shows, watches, cancels and retries the jobs of a catalog."""

from __future__ import annotations

import argparse
import contextlib
from itertools import islice
from typing import TYPE_CHECKING, Any

from moorage.cli import arguments
from moorage.cli.job_text import as_lines, as_row, header
from moorage.cli.job_watch import watch
from moorage.cli.server_client import run_verb, table_named, table_path
from moorage.core.entries import JobState
from moorage.core.job_options import OPTIONS
from moorage.core.jobs import PIPELINE

if TYPE_CHECKING:
    from moorage.client import Client
    from moorage.client.answers import Job


def run(argv: list[str]) -> int:
    return run_verb(_parser().parse_args(argv))


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("job", "List, show, watch, cancel and retry the jobs of a running catalog.")
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    listing = verbs.add_parser("list", help="list jobs, the newest first", allow_abbrev=False)
    listing.add_argument("--state", choices=[str(state) for state in JobState], help="only jobs in this state")
    listing.add_argument("--kind", help="only jobs of this kind")
    listing.add_argument("--table", metavar="CATALOG.NAMESPACE.TABLE", help="only jobs for this table")
    limit = arguments.whole_number(at_least=1)
    listing.add_argument("--limit", type=limit, default=20, metavar="N", help="how many jobs to list (default 20)")
    listing.set_defaults(act=_list)
    start = verbs.add_parser("start", help="start a job for a table", allow_abbrev=False)
    start.add_argument("kind", choices=sorted(OPTIONS), help="what to do")
    start.add_argument("table", metavar="CATALOG.NAMESPACE.TABLE", help="the full name of the table")
    start.add_argument(
        "--set",
        metavar="OPTION=VALUE",
        action="append",
        default=[],
        type=_option,
        help="an option of the job, as JSON or text; may be repeated",
    )
    start.set_defaults(act=_start)
    for verb, act, summary in (
        ("show", _show, "show a job with its log and result"),
        ("watch", _watch, "show the progress of a job until it ends; fails if the job fails"),
        ("cancel", _cancel, "cancel a job"),
        ("retry", _retry, "run a job that ended again, as a new job"),
    ):
        one = verbs.add_parser(verb, help=summary, allow_abbrev=False)
        one.add_argument("id", help="the id of the job, or enough of its end to be unique among the last 1,000")
        one.set_defaults(act=act)
    for each in verbs.choices.values():
        arguments.add_server(each)
        arguments.add_json(each)
    return parser


def _list(client: Client, args: argparse.Namespace) -> int:
    subject = table_named(client, args.table).id if args.table else None
    state = JobState(args.state) if args.state else None
    found = client.jobs.list(state=state, kind=args.kind, subject=subject, newest_first=True)
    jobs = list(islice(found, args.limit))
    if not args.json and jobs:
        print(header())
    known: dict[str, str] = {}
    for job in jobs:
        print(_json(job) if args.json else as_row(job, _about(client, job, known)))
    return 0


def _about(client: Client, job: Job, known: dict[str, str]) -> str:
    """The name of the table or pipeline of a job, or its id if it is gone or hidden."""
    from moorage.client import ClientError

    if job.kind == PIPELINE:
        return ".".join(job.args["pipeline"])
    if job.subject and job.subject not in known:
        known[job.subject] = job.subject
        with contextlib.suppress(ClientError):
            known[job.subject] = ".".join(client.namespaces.table_by_id(job.subject).path)
    return known[job.subject] if job.subject else ""


def _option(text: str) -> tuple[str, Any]:
    import msgspec

    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"expected OPTION=VALUE, not {text!r}")
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


def _start(client: Client, args: argparse.Namespace) -> int:
    return _print(client, client.namespaces.create_job(*table_path(args.table), args.kind, dict(args.set)), args)


def _show(client: Client, args: argparse.Namespace) -> int:
    return _print(client, _job(client, args.id), args)


def _watch(client: Client, args: argparse.Namespace) -> int:
    ended = watch(client, _job(client, args.id))
    _print(client, ended, args)
    return 0 if ended.state is JobState.SUCCEEDED else 1


def _cancel(client: Client, args: argparse.Namespace) -> int:
    return _print(client, client.jobs.cancel(_job(client, args.id).id), args)


def _retry(client: Client, args: argparse.Namespace) -> int:
    return _print(client, client.jobs.retry(_job(client, args.id).id), args)


def _job(client: Client, id: str) -> Job:
    """The job with an id, or with the end of one. Ids begin with their time, so recent ones begin alike."""
    if len(id) < 32:
        found = [job for job in islice(client.jobs.list(newest_first=True), 1000) if job.id.endswith(id)]
        if len(found) == 1:
            return found[0]
    return client.jobs.get(id)


def _print(client: Client, job: Job, args: argparse.Namespace) -> int:
    print(_json(job) if args.json else "\n".join(as_lines(job, _about(client, job, {}))))
    return 0


def _json(job: Job) -> str:
    import msgspec

    return msgspec.json.encode(job).decode()
