"""Authentication of real server processes: the first start, a restart, an open address, and two servers at once."""

from __future__ import annotations

import base64
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.testing.minio import PASSWORD, MinioServer
from moorage.testing.server import COMMAND, ServerProcess, clean_environment
from tests.api.collector import Collector

CATALOGS = "/api/2.1/unity-catalog/catalogs"
UNITY = "/api/2.1/unity-catalog"
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
        assert ask(opened.url, None, "POST", CATALOGS, {"name": "lake"}).json()["owner"] == "admin"
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
def test_a_browser_session_holds_and_ends_on_every_server(tmp_path: Path, database_url: str) -> None:
    first = ServerProcess(tmp_path / "a", database=database_url, flags=["--auth", "on"])
    second = ServerProcess(tmp_path / "b", database=database_url, flags=["--auth", "on"])
    with first, second:
        admin = token_in(first.output() + second.output())
        own, html = {"sec-fetch-site": "same-origin"}, {"accept": "text/html"}

        def log_in(url: str) -> dict[str, str]:
            answer = httpx.post(f"{url}/login", data={"token": admin}, headers=own, trust_env=False)
            return {"cookie": f"moorage={answer.cookies['moorage']}"}

        def pages(session: dict[str, str]) -> list[httpx.Response]:
            return [httpx.get(each.url, headers={**session, **html}, trust_env=False) for each in (second, first)]

        session: dict[str, str] = {}
        for _ in range(3):
            session = log_in(first.url)
            shown = pages(session)
            assert [page.status_code for page in shown] == [200, 200]
            found = re.search(r'name="csrf" value="(\w+)"', shown[0].text)
            assert found is not None
            form = {"csrf": found[1]}
            ended = httpx.post(f"{first.url}/logout", data=form, headers={**own, **session}, trust_env=False)
            assert ended.status_code == 303, "the form of one server is accepted by the other"
            assert [page.status_code for page in pages(session)] == [401, 401]
        secret = session["cookie"].partition("=")[2]
        entries = ask(first.url, admin, "GET", "/api/moorage/v1/feed?limit=1000").text
        assert "browser session" in entries
        assert secret not in entries + first.words() + second.words()


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


@pytest.mark.postgres
def test_a_reader_sees_every_commit_and_every_revocation_of_another_server(tmp_path: Path, database_url: str) -> None:
    """A server reads the table as of the position that it read with the token."""
    first = ServerProcess(tmp_path / "a", database=database_url, flags=["--auth", "on"])
    second = ServerProcess(tmp_path / "a", database=database_url, flags=["--auth", "on"])
    tables = "/iceberg/v1/lake/namespaces/sea/tables"
    with first, second:
        admin = token_in(first.output() + second.output())
        assert ask(first.url, admin, "POST", CATALOGS, {"name": "lake"}).status_code == 200
        assert ask(first.url, admin, "POST", "/iceberg/v1/lake/namespaces", {"namespace": ["sea"]}).status_code == 200
        assert ask(first.url, admin, "POST", tables, {"name": "boats", "schema": SCHEMA}).status_code == 200
        assert ask(first.url, admin, "POST", f"{CONTROL}/scim2/Users", {"userName": "ann"}).status_code == 201
        ann = ask(second.url, admin, "POST", f"{CONTROL}/tokens", {"principal": "ann"}).json()["token"]
        used = {"changes": [{"principal": "ann", "add": ["USE CATALOG", "USE SCHEMA"]}]}
        assert ask(first.url, admin, "PATCH", f"{UNITY}/permissions/catalog/lake", used).status_code == 200
        permissions = f"{UNITY}/permissions/table/lake.sea.boats"
        for number in range(6):
            writer, reader = (first, second) if number % 2 else (second, first)
            granted = {"changes": [{"principal": "ann", "add": ["SELECT"]}]}
            assert ask(writer.url, admin, "PATCH", permissions, granted).status_code == 200
            for step in range(3):
                value = f"{number}.{step}"
                update = {"action": "set-properties", "updates": {"v": value}}
                body = {"requirements": [], "updates": [update]}
                assert ask(writer.url, admin, "POST", f"{tables}/boats", body).status_code == 200
                loaded = ask(reader.url, ann, "GET", f"{tables}/boats").json()
                assert loaded["metadata"]["properties"]["v"] == value
            revoked = {"changes": [{"principal": "ann", "remove": ["SELECT"]}]}
            assert ask(writer.url, admin, "PATCH", permissions, revoked).status_code == 200
            assert ask(reader.url, ann, "GET", f"{tables}/boats").status_code == 403


SECRET_KEY = base64.b64encode(b"canary of the server's own key!!").decode()
STORES = {
    "s3": {"aws_access_key": {"access_key_id": "id", "secret_access_key": "canary-of-s3"}},
    "google": {"gcp_service_account_key": {"email": "a@b.c", "private_key_id": "k", "private_key": "canary-of-google"}},
    "azure": {
        "azure_service_principal": {
            "directory_id": "11111111-2222-3333-4444-555555555555",
            "application_id": "66666666-7777-8888-9999-000000000000",
            "client_secret": "canary-of-azure",
        }
    },
}


def test_no_secret_is_in_logs_errors_metrics_traces_the_audit_the_feed_or_a_backup(
    tmp_path: Path, collector: Collector
) -> None:
    flags = ["--auth", "on", "--log-level", "debug", "--access-log", "true", "--otlp-endpoint", collector.url]
    environment = {"MOORAGE_SECRET_KEY": SECRET_KEY}
    with ServerProcess(tmp_path / "data", flags=flags, environment=environment) as server:
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
        recipient = ask(server.url, admin, "POST", f"{UNITY}/recipients", {"name": "partner"}).json()
        link = recipient["activation_url"].replace("http://127.0.0.1:8080", server.url)
        profile = httpx.get(link, trust_env=False).json()
        for token in (profile["bearerToken"], wrong):
            ask(server.url, token, "GET", "/delta-sharing/shares")
        answers = []
        for name, opens in STORES.items():
            bodies = ({"name": name, **opens}, {"name": name, **opens}, {"name": 1, **opens})
            answers += [ask(server.url, admin, "POST", f"{UNITY}/credentials", body) for body in bodies]
            answers.append(ask(server.url, admin, "GET", f"{UNITY}/credentials/{name}"))
        assert [answer.status_code for answer in answers[::4]] == [200, 200, 200], [each.text for each in answers]
        errors = "".join(answer.text for answer in answers)
        metrics = httpx.get(f"{server.url}/metrics", trust_env=False).text
        _wait_for_audit(server.url, admin)
        audit = ask(server.url, admin, "GET", "/api/moorage/v1/audit?max_results=1000").text
        feed = ask(server.url, admin, "GET", "/api/moorage/v1/feed?limit=1000").text
        backup = [*COMMAND, "backup", "--data", str(tmp_path / "data"), "--to", str(tmp_path / "copy.db")]
        subprocess.run(backup, capture_output=True, env=clean_environment(), check=True)
        code = link.rpartition("/")[2]
        canaries = ["canary-of-s3", "canary-of-google", "canary-of-azure", SECRET_KEY]
        for secret in (admin, made, wrong, profile["bearerToken"], code, *canaries):
            assert secret not in server.words()
            assert secret not in errors
            assert secret not in metrics
            assert secret not in audit
            assert secret not in feed
            assert secret.encode() not in (tmp_path / "copy.db").read_bytes()
        assert session not in server.words()
        assert session not in audit
        assert "canary" in feed
        assert "readMetrics" in server.words()
        server.stop()  # sends the remaining spans
    traces = b"".join(body for _, body in collector.received)
    assert b"readMetrics" in traces
    assert not [secret for secret in (admin, made, wrong, session, code, *canaries) if secret.encode() in traces]


SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
OIDC_SECRET = "canary-of-the-provider"


@pytest.mark.xdist_group("s3")
def test_no_key_that_the_server_has_or_hands_out_is_in_logs_traces_the_audit_the_feed_or_a_backup(
    tmp_path: Path, collector: Collector, minio: MinioServer
) -> None:
    location = f"s3://{minio.new_bucket()}/lake/"
    flags = ["--auth", "on", "--log-level", "debug", "--access-log", "true", "--otlp-endpoint", collector.url]
    flags += ["--audit", "all", "--managed-location", f"{location}managed"]
    flags += ["--oidc-issuers", "https://login.example.com", "--oidc-client-id", "web"]
    environment = {**minio.settings(location), "MOORAGE_OIDC_CLIENT_SECRET": OIDC_SECRET}
    with ServerProcess(tmp_path / "data", flags=flags, environment=environment) as server:
        admin = token_in(server.output())
        secrets = {PASSWORD, OIDC_SECRET, admin}

        def get(path: str, verb: str = "GET", body: Any = None, **headers: str) -> Any:
            sent = {
                "authorization": f"Bearer {admin}",
                **{name.replace("_", "-"): text for name, text in headers.items()},
            }
            answer = httpx.request(verb, server.url + path, json=body, headers=sent, trust_env=False, timeout=60)
            assert answer.is_success, answer.text
            return answer.json()

        get(CATALOGS, "POST", {"name": "lake"})
        get("/iceberg/v1/lake/namespaces", "POST", {"namespace": ["sea"]})
        tables = "/iceberg/v1/lake/namespaces/sea/tables"
        get(tables, "POST", {"name": "boats", "schema": SCHEMA})
        vended = "x_iceberg_access_delegation"
        found = [get(f"{tables}/boats", **{vended: "vended-credentials"}), get(f"{tables}/boats/credentials")]
        table = get(f"{UNITY}/tables/lake.sea.boats")["table_id"]
        for operation in ("READ", "READ_WRITE"):
            body = {"table_id": table, "operation": operation}
            found.append(get(f"{UNITY}/temporary-table-credentials", "POST", body))
        found.append(get("/lance/v1/table/lake$sea$rows/declare", "POST", {}))
        get("/api/moorage/v1/catalogs/lake/namespaces/sea/tables/boats/jobs", "POST", {"kind": "compact"})
        found.append(get("/api/moorage/v1/jobs:take", "POST", {"worker": "w", "kinds": ["compact"]}))
        for answer in found:
            handed_out = set(_secrets_in(answer))
            assert handed_out, answer
            secrets |= handed_out
        login = {"sec-fetch-site": "same-origin"}
        session = httpx.post(f"{server.url}/login", data={"token": admin}, headers=login, trust_env=False)
        secrets.add(session.cookies["moorage"])
        assert len(secrets) >= 10
        metrics = httpx.get(f"{server.url}/metrics", trust_env=False).text
        _wait_for_audit(server.url, admin, outcome="allowed")
        audit = ask(server.url, admin, "GET", "/api/moorage/v1/audit?max_results=1000").text
        feed = ask(server.url, admin, "GET", "/api/moorage/v1/feed?limit=1000").text
        backup = [*COMMAND, "backup", "--data", str(tmp_path / "data"), "--to", str(tmp_path / "copy.db")]
        subprocess.run(backup, capture_output=True, env=clean_environment(), check=True)
        server.stop()
    traces = b"".join(body for _, body in collector.received)
    assert b"generateTemporaryTableCredentials" in traces
    assert "generateTemporaryTableCredentials" in audit
    stored = (tmp_path / "copy.db").read_bytes()
    for secret in secrets:
        assert not [text for text in (server.words(), metrics, audit, feed) if secret in text], secret
        assert secret.encode() not in traces, secret
        assert secret.encode() not in stored, secret


def _secrets_in(answer: Any) -> Iterator[str]:
    """The values of all fields that open something: keys of stores, and the token of a job."""
    for name, value in answer.items() if isinstance(answer, dict) else enumerate(answer):
        if isinstance(value, dict | list):
            yield from _secrets_in(value)
        elif (
            isinstance(value, str) and re.search(r"secret|token", str(name)) and not str(name).endswith("expires-at-ms")
        ):
            yield value


def _wait_for_audit(url: str, token: str, outcome: str = "denied") -> None:
    """Wait until requests with this outcome are stored."""
    deadline = time.monotonic() + 10
    while outcome not in ask(url, token, "GET", f"/api/moorage/v1/audit?outcome={outcome}").text:
        assert time.monotonic() < deadline
        time.sleep(0.05)
