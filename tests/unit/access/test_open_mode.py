"""Who is let in while nobody has to say who he is."""

from __future__ import annotations

import pytest

from moorage.access.open import OpenAccess
from moorage.core.callers import LOCAL
from moorage.core.errors import Forbidden
from moorage.http.calls import Headers


def sent(origin: str | None) -> Headers:
    return Headers({} if origin is None else {b"origin": origin.encode()})


def asked_for(host: str) -> Headers:
    return Headers({b"host": host.encode()})


@pytest.mark.parametrize(
    "origin",
    [None, "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:8080", "https://lake.example.org"],
)
async def test_programs_and_pages_of_the_catalogs_own_address_are_let_in(origin: str | None) -> None:
    assert await OpenAccess("https://lake.example.org/moorage").authenticate(sent(origin)) == LOCAL


@pytest.mark.parametrize(
    "origin",
    ["https://elsewhere.example", "null", "", "http://localhost.elsewhere.example", "http://10.0.0.7", "http://[", "*"],
)
async def test_a_page_of_another_site_is_not_let_in(origin: str) -> None:
    for access in (OpenAccess(), OpenAccess("https://lake.example.org")):
        with pytest.raises(Forbidden, match="pages from"):
            await access.authenticate(sent(origin))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "localhost", "LOCALHOST:8080", "[::1]:8080", "127.8.0.1", "lake.localhost", ""],
)
async def test_the_names_of_this_machine_are_answered_to(host: str) -> None:
    assert await OpenAccess().authenticate(asked_for(host)) == LOCAL


@pytest.mark.parametrize("host", ["lake.example.org", "lake.example.org:443", "Lake.Example.org", "127.0.0.1:8080"])
async def test_the_name_in_the_public_address_is_answered_to(host: str) -> None:
    assert await OpenAccess("https://lake.example.org/moorage").authenticate(asked_for(host)) == LOCAL


@pytest.mark.parametrize(
    "host",
    ["elsewhere.example:8080", "127.0.0.1.elsewhere.example", "host.docker.internal:8080", "0.0.0.0:8080", "[", "*"],
)
async def test_whoever_asks_for_another_name_hears_what_to_do(host: str) -> None:
    for access in (OpenAccess(), OpenAccess("https://lake.example.org")):
        with pytest.raises(Forbidden, match="--public-url"):
            await access.authenticate(asked_for(host))
