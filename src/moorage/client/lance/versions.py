"""The versions of a Lance table, as the catalog lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from lance_namespace import ListTableVersionsRequest

from moorage.client.lance.lake import Lake

if TYPE_CHECKING:
    from lance_namespace import TableVersion

_PAGE: Final = 100


def newest_first(lake: Lake, table: Sequence[str]) -> Iterator[TableVersion]:
    token = None
    while True:
        request = ListTableVersionsRequest(id=list(table), descending=True, limit=_PAGE, page_token=token)
        page = lake.list_table_versions(request)
        yield from page.versions
        if not (token := page.page_token):
            return


def version_at(lake: Lake, table: Sequence[str], timestamp_ms: int) -> int:
    """The newest version that was committed at this time or before."""
    for version in newest_first(lake, table):
        if version.timestamp_millis is not None and version.timestamp_millis <= timestamp_ms:
            return int(version.version)
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat()
    raise ValueError(f"the table has no version committed at or before {moment}")
