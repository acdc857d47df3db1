"""Types that requests and responses of this API have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.core.names import is_addressable_in_unity
from moorage.core.securables import Securable
from moorage.usecases.catalog.paging import page_size

MAX_PAGE_SIZE = 5_000
"""Also the default. DuckDB and Spark never request a second page, so small pages would hide most tables of a large
schema from them."""

Name = Annotated[str, Meta(min_length=1, max_length=255, description="A name without dots, spaces and slashes.")]
Text = Annotated[str, Meta(description="Free text.")]
Properties = dict[str, str]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Millis = Annotated[int, Meta(ge=0, le=2**53 - 1, description="Milliseconds since 1970.")]
Location = Annotated[str, Meta(description="The URL of a folder.")]


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """The requested page of a list."""

    max_results: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="The maximum number of items. 0 stands for a large default.")
    ] = 0
    page_token: Annotated[str, Meta(description="The token of the previous page. Empty for the first page.")] = ""

    @property
    def limit(self) -> int:
        return page_size(self.max_results, default=MAX_PAGE_SIZE, largest=MAX_PAGE_SIZE)


class SchemaPaging(Paging, frozen=True, kw_only=True):
    """The schema, and the page of its objects."""

    catalog_name: Annotated[str, Meta(description="The catalog of the schema.")]
    schema_name: Annotated[str, Meta(description="The schema of the objects.")]


class ForceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a deletion."""

    force: Annotated[bool, Meta(description="Delete the content too. Without it, the object must be empty.")] = False


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """An empty object: the request succeeded."""


NOTHING = Nothing()


class Stamped(msgspec.Struct, frozen=True, kw_only=True):
    """Owner, creation and last change. Never null: Spark and the specification rely on it."""

    owner: str
    created_at: Millis
    created_by: str
    updated_at: Millis
    updated_by: str


def stamps(securable: Securable) -> dict[str, Any]:
    return {
        "owner": securable.owner,
        "created_at": securable.created_at_ms,
        "created_by": securable.created_by,
        "updated_at": securable.updated_at_ms,
        "updated_by": securable.updated_by,
    }


def to_wire_location(location: str | None) -> str | None:
    """Locations end with a slash in the catalog, and without one on the wire."""
    return None if location is None else location[:-1]


def only_addressable(items: Iterable[Securable]) -> list[Securable]:
    """The items whose names Unity can address."""
    return [item for item in items if is_addressable_in_unity(item.name)]


EXAMPLE_STAMPS: dict[str, Any] = {
    "owner": "local",
    "created_at": 1794737732278,
    "created_by": "local",
    "updated_at": 1794737732278,
    "updated_by": "local",
}
EXAMPLE_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d20"
EXAMPLE_VOLUME_ID = "01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d21"
