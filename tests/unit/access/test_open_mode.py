"""Which origins a server without authentication accepts."""

from __future__ import annotations

import pytest

from moorage.access.open import OpenAccess
from moorage.core.callers import LOCAL
from moorage.core.errors import Forbidden
from moorage.http.calls import Headers


def headers_with(origin: str | None) -> Headers:
    return Headers({} if origin is None else {b"origin": origin.encode()})


@pytest.mark.parametrize(
    "origin",
    [None, "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:8080", "https://lake.example.org"],
)
async def test_programs_and_pages_of_the_servers_own_origin_are_accepted(origin: str | None) -> None:
    assert await OpenAccess("https://lake.example.org/moorage").authenticate(None, headers_with(origin)) == LOCAL


@pytest.mark.parametrize(
    "origin",
    ["https://elsewhere.example", "null", "", "http://localhost.elsewhere.example", "http://10.0.0.7", "http://[", "*"],
)
async def test_a_page_of_another_site_is_refused(origin: str) -> None:
    for access in (OpenAccess(), OpenAccess("https://lake.example.org")):
        with pytest.raises(Forbidden, match="pages from"):
            await access.authenticate(None, headers_with(origin))


async def test_a_page_of_an_origin_in_the_settings_is_accepted() -> None:
    access = OpenAccess(origins=["https://console.example"])
    assert await access.authenticate(None, headers_with("https://console.example")) == LOCAL
    with pytest.raises(Forbidden, match="cors_origins"):
        await access.authenticate(None, headers_with("https://console.example.evil"))
