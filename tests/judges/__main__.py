"""Run the judges: `python -m tests.judges [client ...]`. `make judges` does, after it has installed the clients.

Each client runs a small program against a server on local disk and against one on MinIO, there once with a key of its
own and once with what the server vends. The table that is printed has to equal the one in docs/clients/index.md. The
snippets of the pages that need another Python or Go run here too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from moorage.testing.minio import PASSWORD, REGION, USER, MinioServer
from tests.conformance.lakes import lake_server, s3_lake_server
from tests.docs.snippets import CLIENT_PAGES, JUDGED, Site, failure_of
from tests.judges.programs import CLIENTS, JUDGES_PYTHON, run
from tests.judges.pyiceberg_suite import failure_of_suite
from tests.judges.steps import Place, S3Key
from tests.judges.verdicts import PLACES, Verdict, contradictions, table_of

WITHOUT_FILES = {"unitycatalog-ai"}
"""Where the tables are does not matter to these clients, so they run on local disk only."""


@contextmanager
def servers() -> Iterator[dict[str, Place]]:
    """Start both servers, and yield the places of the judges. Each client gets a namespace of its own there."""
    with tempfile.TemporaryDirectory(prefix="judges-") as name:
        folder = Path(name)
        (folder / "minio").mkdir()
        (folder / "external").mkdir()
        external = ("--external-folder", str(folder / "external"))
        with MinioServer(folder / "minio") as minio:
            root = f"s3://{minio.new_bucket()}/lake/"
            with lake_server(folder / "local", external) as local, s3_lake_server(folder / "s3", minio, root) as s3:
                key = S3Key(access_key_id=USER, secret_access_key=PASSWORD)
                on_disk = Place(url=local.url, namespace="local", folder=str(folder / "external"))
                vended = Place(s3.url, "vended", f"{root}external", minio.endpoint, REGION)
                own = replace(vended, namespace="own", key=key)
                yield dict(zip(PLACES, (on_disk, own, vended), strict=True))


def judge(client: str, places: dict[str, Place]) -> Verdict:
    space = client.lower().replace("-", "_")
    outcomes = {}
    for name in PLACES[:1] if client in WITHOUT_FILES else PLACES:
        place = places[name]
        namespace = f"{space}_{place.namespace}"
        outcomes[name] = run(client, replace(place, namespace=namespace, folder=f"{place.folder}/{namespace}"))
    return Verdict(client, outcomes)


def snippet_failures() -> list[str]:
    """Run the pages that need another Python or Go, each with servers of its own."""
    found = []
    for page in CLIENT_PAGES:
        if page.name in JUDGED:
            with Site.open(python=JUDGES_PYTHON) as site:
                if failure := failure_of(page, site):
                    found.append(f"{page.name}: {failure}")
    return found


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="make judges")
    parser.add_argument("clients", nargs="*", choices=[*CLIENTS, []], help="the clients to run; the default is all")
    chosen = parser.parse_args().clients or list(CLIENTS)
    verdicts = []
    with servers() as places:
        for client in chosen:
            say(f"judging {client}")
            verdicts.append(judge(client, places))
        # Before the servers end: a server that logged an error ends the run.
        say(f"\n{table_of(verdicts)}\n")
        for verdict in verdicts:
            for reason in verdict.reasons():
                say(reason)
    problems = contradictions(verdicts)
    if len(chosen) == len(CLIENTS):
        say("running PyIceberg's own tests")
        if failure := failure_of_suite(JUDGES_PYTHON):
            problems.append(f"PyIceberg's own tests: {failure}")
        say("running the pages that need another Python or Go")
        problems += snippet_failures()
    for problem in problems:
        say(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
