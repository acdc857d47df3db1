"""Rate limits, compressed bodies, security headers and CORS, in every API."""

from __future__ import annotations

import gzip
from pathlib import Path

import httpx
import pytest

from moorage.api.sharing import sharing
from moorage.http import NoBody
from moorage.server.compose import APIS
from moorage.server.settings import SettingsError, load
from tests.api.control.guarded import UNITY, open_guarded
from tests.api.house import House, open_house
from tests.api.routes import EVERY_ROUTE, send

PATHS = {
    "console": "/api/moorage/v1/catalogs",
    "unity": f"{UNITY}/catalogs",
    "delta": f"{UNITY}/delta/v1/config",
    "control": "/api/1.0/unity-control/scim2/Me",
    "iceberg": "/iceberg/v1/config",
    "lance": "/lance/v1/namespace/x/list",
    "sharing": "/delta-sharing/shares",
}


async def test_a_caller_above_its_rate_is_refused_by_every_api(tmp_path: Path) -> None:
    async with open_guarded(tmp_path / "data", rate_limit=0.2) as guarded:
        for _ in range(2):
            assert await guarded.status(guarded.admin, "GET", PATHS["console"]) == 200
        tables = {api.name: api.errors for api in APIS}
        for name, path in PATHS.items():
            if name == "sharing":  # its callers are recipients, who have limits of their own
                continue
            answer = await guarded.ask(guarded.admin, "GET", path)
            assert answer.status_code == (503 if name == "delta" else 429), (name, answer.text)
            assert 1 <= int(answer.headers["retry-after"]) <= 5
            wire = next(row for error, row in tables[name].items() if error.__name__ == "TooManyRequests")
            assert "too many requests" in answer.text
            assert wire.status == answer.status_code
        assert await guarded.status(None, "GET", "/healthz") == 200
        assert await guarded.status(None, "GET", "/metrics") == 200


async def test_callers_without_a_valid_token_share_the_limit_of_their_address(tmp_path: Path) -> None:
    async with open_guarded(tmp_path / "data", rate_limit=0.2) as guarded:
        found = [await guarded.status(f"moor_wrong{number}", "GET", PATHS["unity"]) for number in range(4)]
        assert found == [401, 401, 429, 429]
        assert await guarded.status(guarded.admin, "GET", PATHS["unity"]) == 200
        assert await guarded.status(None, "GET", "/readyz") == 200


async def test_there_is_no_limit_by_default(tmp_path: Path) -> None:
    async with open_guarded(tmp_path / "data") as guarded:
        assert {await guarded.status(guarded.admin, "GET", PATHS["unity"]) for _ in range(100)} == {200}


async def test_no_route_accepts_a_compressed_body(house: House) -> None:
    """A body that expands in memory would pass every limit."""
    bomb = gzip.compress(b'{"name": "' + b"x" * 100_000 + b'"}')
    for endpoint in EVERY_ROUTE:
        if endpoint.route.body is NoBody or endpoint.api is sharing:  # recipients have tokens of their own
            continue
        for encoding in ("gzip", "Deflate", "identity, br"):
            answer = await send(house, endpoint.route, raw=bomb, headers={"content-encoding": encoding})
            assert answer.status_code == 400, (str(endpoint), answer.text)
            assert "the body is compressed" in answer.text, str(endpoint)
    plain = await house.console.http.post(
        PATHS["unity"], content=b'{"name": "lake"}', headers={"content-encoding": "identity"}
    )
    assert plain.status_code == 200


async def test_every_answer_has_security_headers(tmp_path: Path) -> None:
    async with open_house(tmp_path / "data") as house:
        for path in ("/healthz", PATHS["unity"], "/nothing", PATHS["sharing"]):
            headers = (await house.console.http.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff", path
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["content-security-policy"] == "frame-ancestors 'none'"
            assert "strict-transport-security" not in headers, "only with TLS"
            assert "access-control-allow-origin" not in headers


async def test_pages_of_listed_origins_may_use_the_apis(tmp_path: Path) -> None:
    page = "https://console.example"
    async with open_guarded(tmp_path / "data", cors_origins=f"{page}, http://localhost:5173") as guarded:

        async def ask(verb: str, origin: str, **more: str) -> httpx.Response:
            headers = {"origin": origin, **{name.replace("_", "-"): value for name, value in more.items()}}
            return await guarded.house.console.http.request(verb, PATHS["unity"], headers=headers)

        wanted = {"access_control_request_method": "POST", "access_control_request_headers": "authorization, x-any"}
        allowed = await ask("OPTIONS", page, **wanted)
        assert allowed.status_code == 204
        assert allowed.headers["access-control-allow-origin"] == page
        assert allowed.headers["access-control-allow-headers"] == "authorization, x-any"
        assert "DELETE" in allowed.headers["access-control-allow-methods"]
        assert "access-control-allow-credentials" not in allowed.headers
        answer = await ask("GET", page, authorization=f"Bearer {guarded.admin}")
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, page)
        assert answer.headers["vary"] == "origin"
        assert (await ask("GET", page)).headers["access-control-allow-origin"] == page, "errors too"
        for other in ("https://evil.example", f"{page}.evil.example", "null"):
            refused = await ask("OPTIONS", other, **wanted)
            assert refused.status_code == 405
            assert "access-control-allow-origin" not in refused.headers


@pytest.mark.parametrize("origins", ["*", "console.example", "https://a.example/path", "https://a.example/"])
def test_an_origin_must_be_exact(origins: str) -> None:
    with pytest.raises(SettingsError, match="cors-origins"):
        load(flags={"cors_origins": origins})


async def test_callers_behind_a_trusted_proxy_have_limits_of_their_own(tmp_path: Path) -> None:
    async def statuses(path: Path, **given: str) -> list[int]:
        async with open_guarded(path, rate_limit=0.2, **given) as guarded:
            http, found = guarded.house.console.http, []
            for number in range(4):
                headers = {"authorization": "Bearer moor_wrong", "x-forwarded-for": f"192.0.2.9, 198.51.100.{number}"}
                found.append((await http.get(PATHS["unity"], headers=headers)).status_code)
            return found

    assert await statuses(tmp_path / "trusted", trusted_proxies="10.0.0.1, 127.0.0.0/8") == [401] * 4
    assert await statuses(tmp_path / "other", trusted_proxies="10.0.0.1") == [401, 401, 429, 429]
    assert await statuses(tmp_path / "none") == [401, 401, 429, 429]


@pytest.mark.parametrize("proxies", ["proxy.example", "10.0.0.0/33", "10.0.0.1;10.0.0.2", "*"])
def test_a_proxy_is_an_address_or_a_network(proxies: str) -> None:
    with pytest.raises(SettingsError, match=r"--trusted-proxies is '.*'; expected IP addresses and networks"):
        load(flags={"trusted_proxies": proxies})
