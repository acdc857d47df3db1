"""Every change, in order, from any point on."""

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
        """The next entries after a sequence number; with a wait, not empty before it has passed."""
        return self._page(after, limit, wait_s, None)

    def read(self, after: int = 0, *, up_to: int) -> Iterator[FeedEntry]:
        """All entries up to one. Without that bound a reader slower than the writers would never end."""
        while after < up_to:
            page = self.page(after, limit=min(_PAGE, up_to - after))
            if not page.entries:
                return
            yield from page.entries
            after = page.last_seq

    def follow(self, after: int = 0) -> Iterator[FeedEntry]:
        """Entries as they happen, for ever. A lost connection or a server that restarts loses none."""
        while True:
            page = self._page(after, _PAGE, _WAIT_SECONDS, inf)
            yield from page.entries
            after = page.last_seq

    def _page(self, after: int, limit: int, wait_s: float, patience_s: float | None) -> FeedPage:
        query = {"after": after, "limit": limit, "wait_seconds": wait_s}
        return self._transport.read(f"{API}/feed", FeedPage, query, patience_s=patience_s)
