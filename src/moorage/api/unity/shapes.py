"""What the requests and answers of this API have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from moorage.core.names import is_addressable_in_unity
from moorage.core.securables import Securable
from moorage.usecases.catalog.paging import page_size

WHOLE_LIST = 5_000
"""The page of those who do not ask for a size. DuckDB and Spark never ask for a second one, so with small
pages most tables of a large schema would not exist for them."""

Name = Annotated[str, Meta(min_length=1, max_length=255, description="A name without dots, spaces and slashes.")]
Text = Annotated[str, Meta(description="In words for people.")]
Properties = dict[str, str]
Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
Millis = Annotated[int, Meta(ge=0, le=2**53 - 1, description="Milliseconds since 1970.")]
Location = Annotated[str, Meta(description="The URL of a folder.")]


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted."""

    max_results: Annotated[
        int, Meta(ge=0, le=2**31 - 1, description="How many at most; 0 is the server's choice, and a large one.")
    ] = 0
    page_token: Annotated[str, Meta(description="From the previous page; empty for the first.")] = ""

    @property
    def limit(self) -> int:
        return page_size(self.max_results, default=WHOLE_LIST, largest=WHOLE_LIST)


class SchemaPaging(Paging, frozen=True, kw_only=True):
    """Whose objects are wanted, and which part of them."""

    catalog_name: Annotated[str, Meta(description="The catalog of the schema.")]
    schema_name: Annotated[str, Meta(description="The schema to look into.")]


class ForceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How far a deletion may reach."""

    force: Annotated[bool, Meta(description="Delete what is inside, too; without it only what is empty.")] = False


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """It is done, and there is nothing more to say."""


NOTHING = Nothing()


class Stamped(msgspec.Struct, frozen=True, kw_only=True):
    """Whose it is, and who changed it last. Never null: Spark and the specification count on it."""

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


def location_of(place: str | None) -> str | None:
    """Places end with a slash, Unity's locations do not."""
    return None if place is None else place[:-1]


def seen(items: Iterable[Securable]) -> list[Securable]:
    """Those whose names can be said here."""
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
