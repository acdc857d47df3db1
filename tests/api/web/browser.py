"""A browser without a screen: it keeps cookies, follows redirects and sends the forms of a page."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx

HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
OWN = {"sec-fetch-site": "same-origin"}
_COOKIE = re.compile(r"(?P<name>[^=]+)=(?P<value>[^;]*);.*Max-Age=(?P<age>\d+)")


class Browser:
    """Pages of one server. `cookies` are those that the server has set."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.cookies: dict[str, str] = {}

    async def get(self, path: str, **headers: str) -> httpx.Response:
        return await self._send("GET", path, None, headers)

    async def post(self, path: str, form: dict[str, str], **headers: str) -> httpx.Response:
        """Send a form from a page of the server, unless the headers state another origin."""
        return await self._send("POST", path, form, headers or OWN)

    async def log_in(self, token: str, **form: str) -> httpx.Response:
        return await self.post("/login", {"token": token, **form})

    async def csrf(self) -> str:
        return field("csrf", (await self.get("/")).text)

    async def _send(self, verb: str, path: str, form: dict[str, str] | None, headers: dict[str, str]) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        self._http.cookies.clear()
        answer = await self._http.request(verb, path, data=form, headers={**HTML, **given}, follow_redirects=False)
        self._http.cookies.clear()
        for text in answer.headers.get_list("set-cookie"):
            found = _COOKIE.match(text)
            assert found is not None, text
            if found["age"] == "0":
                self.cookies.pop(found["name"], None)
            else:
                self.cookies[found["name"]] = found["value"]
        return answer


def field(name: str, page: str) -> str:
    """The value of a hidden field of a page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', page)
    assert found is not None, page
    return unescape(found[1])


def secret_in(page: str) -> str:
    """The new token that a page shows."""
    found = re.search(r'id="new-token">([^<]+)<', page)
    assert found is not None, page
    return found[1]


def went_to(answer: httpx.Response) -> Any:
    """Where an answer redirects to."""
    assert answer.status_code == 303, f"{answer.status_code}: {answer.text}"
    return answer.headers["location"]
