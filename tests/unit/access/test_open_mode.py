"""Who is let in while nobody has to say who he is."""

from __future__ import annotations

import pytest

from moorage.access.open import OpenAccess
from moorage.core.callers import LOCAL
from moorage.core.errors import Forbidden
from moorage.http.calls import Headers


def sent(origin: str | None) -> Headers:
    return Headers({} if origin is None else {b"origin": origin.encode()})


@pytest.mark.parametrize(
    "origin",
    [None, "http://localhost:5173", "http://127.0.0.1:8080", "http://[::1]:8080", "https://lake.example.org"],
)
async def test_programs_and_pages_of_the_catalogs_own_address_are_let_in(origin: str | None) -> None:
    assert await OpenAccess("https://lake.example.org/moorage").authenticate(None, sent(origin)) == LOCAL


@pytest.mark.parametrize(
    "origin",
    ["https://elsewhere.example", "null", "", "http://localhost.elsewhere.example", "http://10.0.0.7", "http://[", "*"],
)
async def test_a_page_of_another_site_is_not_let_in(origin: str) -> None:
    for access in (OpenAccess(), OpenAccess("https://lake.example.org")):
        with pytest.raises(Forbidden, match="pages from"):
            await access.authenticate(None, sent(origin))
