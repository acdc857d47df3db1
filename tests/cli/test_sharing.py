"""`moorage share` and `moorage recipient`, against a real server."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import httpx
import pytest

from moorage.client import Client
from moorage.testing.server import ServerProcess
from tests.cli.conftest import Moorage

UNITY = "/api/2.1/unity-catalog"


@pytest.fixture(autouse=True)
def tables(catalog: ServerProcess, client: Client) -> None:
    client.catalogs.create("lake")
    client.namespaces.create("lake", ("sales",))
    column = {"type_text": "string", "type_name": "STRING", "type_json": '"string"'}
    for name in ("orders", "returns"):
        columns = [{"name": "region", "position": 0, "partition_index": 0, **column}]
        body = {
            "name": name,
            "catalog_name": "lake",
            "schema_name": "sales",
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": columns,
            "storage_location": f"file:///lakes/{name}",
        }
        httpx.post(f"{catalog.url}{UNITY}/tables", json=body, trust_env=False).raise_for_status()


def run(moorage: Moorage, catalog: ServerProcess, *args: object) -> str:
    result = moorage(*args, MOORAGE_URL=catalog.url)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def failed(moorage: Moorage, catalog: ServerProcess, *args: object) -> str:
    result = moorage(*args, MOORAGE_URL=catalog.url)
    assert (result.returncode, result.stdout) != (0, "")
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_a_share_is_built_granted_and_shown(moorage: Moorage, catalog: ServerProcess) -> None:
    assert "share       quarterly" in run(moorage, catalog, "share", "create", "quarterly", "--comment", "Figures.")
    run(moorage, catalog, "recipient", "create", "partner")
    add = ("share", "add", "quarterly", "lake.sales.orders", "--history", "--partition", "region=eu")
    run(moorage, catalog, *add)
    run(moorage, catalog, "share", "add", "quarterly", "lake.sales.returns", "--as", "other.back")
    run(moorage, catalog, "share", "grant", "quarterly", "partner")
    assert run(moorage, catalog, "share", "show", "quarterly").splitlines() == [
        "share       quarterly",
        "comment     Figures.",
        "recipients  partner",
        f"  {'other.back':<32} table lake.sales.returns",
        f"  {'sales.orders':<32} table lake.sales.orders, with history, only region EQUAL eu",
    ]
    shown = json.loads(run(moorage, catalog, "share", "show", "quarterly", "--json"))
    assert [each["shared_as"] for each in shown["objects"]] == ["other.back", "sales.orders"]
    run(moorage, catalog, "share", "remove", "quarterly", "lake.sales.orders", "lake.sales.returns")
    run(moorage, catalog, "share", "add", "quarterly", "lake.sales")
    run(moorage, catalog, "share", "revoke", "quarterly", "partner")
    assert run(moorage, catalog, "share", "show", "quarterly").splitlines()[2:] == [
        "recipients  none",
        f"  {'sales':<32} schema lake.sales",
    ]
    assert run(moorage, catalog, "share", "list").splitlines() == [f"{'quarterly':<24}  Figures."]
    run(moorage, catalog, "share", "delete", "quarterly")
    assert run(moorage, catalog, "share", "list") == ""


def test_a_recipient_gets_its_profile_once(moorage: Moorage, catalog: ServerProcess, tmp_path: Path) -> None:
    created = run(moorage, catalog, "recipient", "create", "partner", "--days", 30, "--address", "127.0.0.0/8")
    link = created.splitlines()[-1].removeprefix("activation  ")
    assert link.startswith(f"{catalog.url}{UNITY}/public/data_sharing_activation/")
    file = tmp_path / "config.share"
    assert run(moorage, catalog, "recipient", "profile", "partner", "--to", file) == f"{file}\n"
    profile = json.loads(file.read_text())
    assert (profile["shareCredentialsVersion"], profile["endpoint"]) == (1, f"{catalog.url}/delta-sharing")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "run `moorage recipient rotate partner`" in failed(moorage, catalog, "recipient", "profile", "partner")
    assert "was used already" in failed(moorage, catalog, "recipient", "profile", link)
    assert "with an unused activation link" in run(moorage, catalog, "recipient", "rotate", "partner")
    # A path that cannot be written does not use the link up.
    assert "File exists" in failed(moorage, catalog, "recipient", "profile", "partner", "--to", file)
    again = json.loads(run(moorage, catalog, "recipient", "profile", "partner"))
    assert again["bearerToken"] != profile["bearerToken"]
    assert run(moorage, catalog, "recipient", "list").startswith("partner ")
    assert json.loads(run(moorage, catalog, "recipient", "show", "partner", "--json"))["activated"] is True
    run(moorage, catalog, "recipient", "delete", "partner")
    assert run(moorage, catalog, "recipient", "list") == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("share", "show", "absent"), "share 'absent' does not exist"),
        (("share", "add", "s", "lake.sales.absent"), "share 's' does not exist"),
        (("share", "add", "s", "a.b", "c.d", "--as", "x"), "--as names one object"),
        (("share", "add", "s", "a.b.c", "--partition", "region"), "--partition expects COLUMN=VALUE, not 'region'"),
        (
            ("share", "create", "a b"),
            "contains a dot, a space or a slash, which recipients cannot address; choose a name",
        ),
        (("recipient", "create", "r", "--property", "x"), "--property expects KEY=VALUE, not 'x'"),
        (("recipient", "create", "r", "--address", "x"), "'x' is not an IP address or network"),
        (("recipient", "rotate", "absent"), "recipient 'absent' does not exist"),
        (("share",), "the following arguments are required: VERB"),
    ],
)
def test_a_wrong_request_is_reported_in_one_line(
    moorage: Moorage, catalog: ServerProcess, args: tuple[str, ...], words: str
) -> None:
    assert words in failed(moorage, catalog, *args)
