"""Requests that a real Spark sent to Unity Catalog 0.6 get the same responses here."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from moorage.client import Client
from moorage.testing.server import ServerProcess
from tests.conformance.guarded_lakes import administrator_of
from tests.conformance.spark_replay import Replayer, differences, exchanges


@pytest.mark.parametrize("auth", ["off", "on"])
def test_every_request_of_a_real_spark_gets_the_same_response_as_from_unity(tmp_path: Path, auth: str) -> None:
    with ServerProcess(tmp_path / "data", flags=["--auth", auth]) as server:
        headers = {"authorization": f"Bearer {engineer_of(server)}"} if auth == "on" else {}
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
            replayer = Replayer(http, server.data / "managed" / "warehouse", tmp_path / "elsewhere")
            deviations: list[str] = []
            for one in exchanges():
                answer = replayer.send(one)
                label = f"#{one['n']} {one['verb']} {one['path'][:80]} ({one['statement'][:40]})"
                if answer.status_code != one["status"]:
                    deviations.append(f"{label}: {answer.status_code}, not {one['status']}: {answer.text[:300]}")
                elif isinstance(one.get("response"), dict) and answer.content:
                    deviations += [f"{label}: {each}" for each in differences(one["response"], answer.json())]
        assert deviations == []
        assert not server.errors()


def engineer_of(server: ServerProcess) -> str:
    """The token of a user who may create catalogs with a storage root, and tables at locations of its choice."""
    privileges = ["CREATE CATALOG", "CREATE MANAGED STORAGE", "CREATE EXTERNAL TABLE"]
    with Client(server.url, token=administrator_of(server)) as client:
        client.access.create("Users", "engineer@example.com")
        client.access.change_grants("metastore", "main", "engineer@example.com", add=privileges)
        return client.access.create_token("engineer@example.com").token or ""
