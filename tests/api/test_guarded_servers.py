"""Authentication of real server processes: the first start, a restart, an open address, and two servers at once."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.testing.server import COMMAND, ServerProcess, clean_environment

CATALOGS = "/api/2.1/unity-catalog/catalogs"
CONTROL = "/api/1.0/unity-control"
TOKEN = re.compile(r"moor_[A-Za-z0-9_-]+")


def token_in(text: str) -> str:
    (token,) = set(TOKEN.findall(text))
    return str(token)


def ask(url: str, token: str | None, verb: str, path: str, body: Any = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return httpx.request(verb, url + path, json=body, headers=headers, trust_env=False)


def test_the_token_is_printed_once_and_authentication_stays_on(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", flags=["--auth", "on"])
    with server:
        token = token_in(server.output())
        assert ask(server.url, None, "GET", CATALOGS).status_code == 401
        assert ask(server.url, token, "GET", CATALOGS).status_code == 200
    with ServerProcess(tmp_path / "data") as again:
        assert again.output() == server.output(), "a second start prints no token"
        assert ask(again.url, None, "GET", CATALOGS).status_code == 401, "without the flag, too"
        assert ask(again.url, token, "GET", CATALOGS).status_code == 200
    with ServerProcess(tmp_path / "data", flags=["--auth", "off"]) as opened:
        assert ask(opened.url, None, "GET", CATALOGS).status_code == 200
    assert token not in server.words()


def test_a_reset_makes_a_new_token_and_revokes_the_old_one(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", flags=["--auth", "on"]) as server:
        first = token_in(server.output())
    reset = [*COMMAND, "admin", "reset", "--data", str(tmp_path / "data")]
    done = subprocess.run(reset, capture_output=True, text=True, env=clean_environment(), check=True)
    second = token_in(done.stdout)
    with ServerProcess(tmp_path / "data") as server:
        assert [ask(server.url, token, "GET", CATALOGS).status_code for token in (first, second)] == [401, 200]


def test_a_server_with_authentication_may_listen_on_any_address(tmp_path: Path) -> None:
    flags = ["--auth", "on", "--host", "0.0.0.0", "--public-url", "http://lake.example.com"]
    with ServerProcess(tmp_path / "data", flags=flags) as server:
        assert ask(server.url, None, "GET", CATALOGS).status_code == 401
    command = [*COMMAND, "serve", "--data", str(tmp_path / "other"), "--host", "0.0.0.0", "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
    assert refused.returncode == 2
    assert "--auth on" in refused.stderr


@pytest.mark.postgres
def test_a_revoked_token_is_refused_by_every_server_with_the_next_request(tmp_path: Path, database_url: str) -> None:
    first = ServerProcess(tmp_path / "a", database=database_url, flags=["--auth", "on"])
    second = ServerProcess(tmp_path / "b", database=database_url, flags=["--auth", "on"])
    with first, second:
        admin = token_in(first.output() + second.output())
        me = f"{CONTROL}/scim2/Me"
        user = ask(first.url, admin, "POST", f"{CONTROL}/scim2/Users", {"userName": "ann"}).json()
        for _ in range(5):
            made = ask(first.url, admin, "POST", f"{CONTROL}/tokens", {"principal": "ann"}).json()
            states = [ask(server.url, made["token"], "GET", me).status_code for server in (first, second)]
            assert states == [200, 200]
            assert ask(first.url, admin, "DELETE", f"{CONTROL}/tokens/{made['token_id']}").status_code == 204
            states = [ask(server.url, made["token"], "GET", me).status_code for server in (second, first)]
            assert states == [401, 401]
        made = ask(second.url, admin, "POST", f"{CONTROL}/tokens", {"principal": "ann"}).json()
        assert ask(first.url, made["token"], "GET", me).status_code == 200
        off = {"Operations": [{"op": "replace", "path": "active", "value": False}]}
        assert ask(second.url, admin, "PATCH", f"{CONTROL}/scim2/Users/{user['id']}", off).status_code == 200
        assert ask(first.url, made["token"], "GET", me).status_code == 401


@pytest.mark.postgres
def test_a_grant_and_a_revocation_hold_on_every_server_with_the_next_request(tmp_path: Path, database_url: str) -> None:
    first = ServerProcess(tmp_path / "a", database=database_url, flags=["--auth", "on"])
    second = ServerProcess(tmp_path / "b", database=database_url, flags=["--auth", "on"])
    with first, second:
        admin = token_in(first.output() + second.output())
        assert ask(first.url, admin, "POST", CATALOGS, {"name": "lake"}).status_code == 200
        for path, body in (("Users", {"userName": "ann"}), ("Groups", {"displayName": "team"})):
            assert ask(first.url, admin, "POST", f"{CONTROL}/scim2/{path}", body).status_code == 201
        ann = ask(second.url, admin, "POST", f"{CONTROL}/tokens", {"principal": "ann"}).json()["token"]
        user = ask(first.url, ann, "GET", f"{CONTROL}/scim2/Me").json()["id"]
        team = ask(first.url, admin, "GET", f'{CONTROL}/scim2/Groups?filter=displayName eq "team"').json()
        group = f"{CONTROL}/scim2/Groups/{team['Resources'][0]['id']}"
        permissions = "/api/2.1/unity-catalog/permissions/catalog/lake"

        def seen() -> list[int]:
            return [ask(server.url, ann, "GET", f"{CATALOGS}/lake").status_code for server in (second, first)]

        def change(server: ServerProcess, path: str, body: Any) -> None:
            assert ask(server.url, admin, "PATCH", path, body).status_code == 200

        for changed_by in (first, second, first):
            change(changed_by, permissions, {"changes": [{"principal": "ann", "add": ["USE CATALOG"]}]})
            assert seen() == [200, 200]
            change(changed_by, permissions, {"changes": [{"principal": "ann", "remove": ["USE CATALOG"]}]})
            assert seen() == [404, 404]
        change(first, permissions, {"changes": [{"principal": "team", "add": ["BROWSE"]}]})
        for op, states in (("add", [200, 200]), ("remove", [404, 404])):
            change(first, group, {"Operations": [{"op": op, "path": "members", "value": [{"value": user}]}]})
            assert seen() == states


def test_no_token_is_in_logs_metrics_the_feed_or_a_backup(tmp_path: Path) -> None:
    flags = ["--auth", "on", "--log-level", "debug", "--access-log", "true"]
    with ServerProcess(tmp_path / "data", flags=flags) as server:
        admin = token_in(server.output())
        made = ask(server.url, admin, "POST", f"{CONTROL}/tokens", {"comment": "canary"}).json()["token"]
        form = {"grant_type": "client_credentials", "client_id": "admin", "client_secret": made}
        session = ""
        for path in ("/iceberg/v1/oauth/tokens", "/lance/oauth/token"):
            answer = httpx.post(server.url + path, data=form, trust_env=False)
            assert answer.status_code == 200
            session = str(answer.json()["access_token"])
        wrong = made[:-1] + ("A" if made[-1] != "A" else "B")
        for token in (session, wrong):
            ask(server.url, token, "GET", CATALOGS)
            ask(server.url, token, "POST", CATALOGS, {"name": token})
            httpx.get(f"{server.url}{CATALOGS}/x", headers={"x-api-key": token}, trust_env=False)
        metrics = httpx.get(f"{server.url}/metrics", trust_env=False).text
        feed = ask(server.url, admin, "GET", "/api/moorage/v1/feed?limit=1000").text
        backup = [*COMMAND, "backup", "--data", str(tmp_path / "data"), "--to", str(tmp_path / "copy.db")]
        subprocess.run(backup, capture_output=True, env=clean_environment(), check=True)
        for secret in (admin, made):
            assert secret not in server.words()
            assert secret not in metrics
            assert secret not in feed
            assert secret.encode() not in (tmp_path / "copy.db").read_bytes()
        assert session not in server.words()
        assert "canary" in feed
