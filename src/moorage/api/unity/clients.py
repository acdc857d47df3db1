"""What the clients of this API can decode.

Many of them were generated from one release of Unity's OpenAPI file and fail on a whole page of tables if one value in
it is outside of an enum that they know. `User-Agent` states which client it is.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from moorage.api.unity.table_bodies import TableType

UNITY_FORMATS: Final = frozenset(("DELTA", "CSV", "JSON", "AVRO", "PARQUET", "ORC", "TEXT"))
"""The formats that every release of Unity's OpenAPI file has. Release 0.7 added ICEBERG, and none has LANCE."""
_TABLE_TYPES: Final[frozenset[TableType]] = frozenset(("MANAGED", "EXTERNAL", "VIEW", "METRIC_VIEW"))


class Client(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """The values of `data_source_format` and `table_type` that a client can decode."""

    formats: frozenset[str] | None = UNITY_FORMATS
    """None if the client accepts any value."""
    table_types: frozenset[TableType] = _TABLE_TYPES
    unreadable_formats: frozenset[str] = frozenset()
    """Formats that the client can list but never read, so that a list with them would offer what then fails."""

    @property
    def sees_all(self) -> bool:
        """Whether a list for this client leaves nothing out. Then its items need no check."""
        return not self.unreadable_formats and self.table_types == _TABLE_TYPES

    def format(self, name: str) -> str | None:
        return name if self.formats is None or name in self.formats else None

    def table_type(self, name: TableType) -> TableType:
        """The type, or VIEW for a metric view if the client knows only views."""
        return "VIEW" if name not in self.table_types and "VIEW" in self.table_types else name

    def can_decode(self, name: TableType) -> bool:
        """Whether the client can decode a table of this type at all."""
        return self.table_type(name) in self.table_types

    def can_read(self, name: str) -> bool:
        return name not in self.unreadable_formats


OTHER: Final = Client()
_GENERATED = re.compile(r"OpenAPI-Generator/(\d+)\.(\d+)")
_JAVA = re.compile(r"UnityCatalog-Java-Client/(\d+)\.(\d+)")


@lru_cache(maxsize=256)
def client_of(user_agent: str | None) -> Client:
    """The client that sent a request. A client that is not known gets the values that all clients decode."""
    text = user_agent or ""
    if found := _JAVA.match(text):
        # Its enums have a value for everything unknown. Spark's connector passes the format on as a data source, and
        # Spark then fails with DATA_SOURCE_NOT_FOUND: unknown_default_open_api.
        unreadable = ("LANCE",) if _release(found) >= (0, 7) else ("ICEBERG", "LANCE")
        return Client(formats=None, unreadable_formats=frozenset(unreadable if " Spark/" in text else ()))
    if found := _GENERATED.match(text):
        release = _release(found)
        formats = UNITY_FORMATS | {"ICEBERG"} if release >= (0, 7) else UNITY_FORMATS
        return Client(formats=formats, table_types=_TABLE_TYPES if release >= (0, 6) else _TABLE_TYPES - _VIEWS)
    if text.startswith("polars/"):
        return Client(table_types=_TABLE_TYPES - {"METRIC_VIEW"})
    return OTHER


_VIEWS: Final[frozenset[TableType]] = frozenset(("VIEW", "METRIC_VIEW"))


def _release(found: re.Match[str]) -> tuple[int, int]:
    return int(found[1]), int(found[2])
