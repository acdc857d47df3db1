"""Tables by their ids, as the jobs of workers name them, and the rewrites of their files."""

from __future__ import annotations

from moorage.client.answers import Table
from moorage.client.transport import API, Transport, address
from moorage.core.rewrites import OfferResult, Shadow


class NamedTable(Table, frozen=True, kw_only=True):
    """A table and its full name: catalog, namespaces, name."""

    path: tuple[str, ...]


class Tables:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def get(self, id: str) -> NamedTable:
        return self._transport.read(_table(id), NamedTable)

    # --- for the program of a compaction job: the client must be that of `Client.for_job` ---

    def next_shadow(self, id: str) -> Shadow | None:
        """The next files to rewrite, as a small table in the folder of the real one; None if none are left."""
        # mypy does not accept a union as a type argument, but msgspec decodes it.
        return self._transport.note(f"{_table(id)}/shadows", Shadow | None, body=None)  # type: ignore[arg-type]

    def offer(self, id: str, shadow: Shadow) -> OfferResult:
        """Commit what Spark made of a shadow."""
        body = {"folder": shadow.folder, "base_version": shadow.base_version}
        return self._transport.change("POST", f"{_table(id)}/offers", OfferResult, body=body)


def _table(id: str) -> str:
    return f"{API}/tables{address(id)}"
