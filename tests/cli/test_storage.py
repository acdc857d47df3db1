"""`moorage credential` and `moorage location`, against a real server."""

from __future__ import annotations

import json
from pathlib import Path

from moorage.testing.server import ServerProcess
from tests.cli.conftest import Moorage
from tests.cli.test_sharing import failed, run

ROLE = "arn:aws:iam::123456789012:role/lake"


def test_a_credential_and_a_location_are_created_shown_listed_and_deleted(
    moorage: Moorage, catalog: ServerProcess
) -> None:
    made = run(moorage, catalog, "credential", "create", "vault", "--role", ROLE, "--region", "eu-north-1")
    assert f"opens       Amazon S3 in eu-north-1 as {ROLE}" in made
    run(moorage, catalog, "location", "create", "archive", "s3://archive/tables", "vault", "--no-check")
    assert run(moorage, catalog, "location", "show", "archive").splitlines() == [
        "location    archive",
        "folder      s3://archive/tables",
        "credential  vault",
    ]
    assert json.loads(run(moorage, catalog, "location", "list", "--json"))["url"] == "s3://archive/tables"
    assert "external location 'archive' uses" in failed(moorage, catalog, "credential", "delete", "vault")
    run(moorage, catalog, "location", "delete", "archive")
    run(moorage, catalog, "credential", "delete", "vault")
    assert run(moorage, catalog, "credential", "list") == ""


def test_a_credential_that_is_no_key_is_refused(moorage: Moorage, catalog: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "key.json").write_text('{"client_email": "x"}')
    google = ("credential", "create", "google", "--google-key", tmp_path / "key.json")
    assert "is not the JSON file" in failed(moorage, catalog, *google)
    assert "one cloud" in failed(moorage, catalog, "credential", "create", "nothing")
