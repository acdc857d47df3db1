"""The feed of changes, in order, from any entry on."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

from moorage.client.answers import FeedEntry, FeedPage
from moorage.client.transport import API, Transport

_PAGE: Final = 1000
_WAIT_SECONDS: Final = 20.0


class Feed:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def page(self, after: int = 0, *, limit: int = _PAGE, wait_s: float = 0.0) -> FeedPage:
        """The next entries after a sequence number. If there are none, waits up to `wait_s` seconds for one."""
        return self._page(after, limit, wait_s, None)

    def read(self, after: int = 0, *, up_to: int) -> Iterator[FeedEntry]:
        """All entries up to `up_to`. Without this bound, a reader slower than the writers would never finish."""
        while after < up_to:
            page = self.page(after, limit=min(_PAGE, up_to - after))
            if not page.entries:
                return
            yield from page.entries
            after = page.last_seq

    def follow(self, after: int = 0) -> Iterator[FeedEntry]:
        """Yield entries as they are appended, without end. A lost connection or a server restart skips no entry."""
        while True:
            page = self._page(after, _PAGE, _WAIT_SECONDS, inf)
            yield from page.entries
            after = page.last_seq

    def _page(self, after: int, limit: int, wait_s: float, patience_s: float | None) -> FeedPage:
        query = {"after": after, "limit": limit, "wait_seconds": wait_s}
        return self._transport.read(f"{API}/feed", FeedPage, query, patience_s=patience_s)
