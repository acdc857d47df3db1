"""Where the console is mounted, and what its routes have in common."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.core.errors import InvalidInput
from moorage.http import Api

LEVELS = "\x1f"
"""Between the levels of a nested namespace in an address: no name can contain it."""

console = Api(
    "console",
    prefix="/api/moorage/v1",
    file="console.yaml",
    title="Moorage console API",
    description="Catalogs and namespaces, the feed of every change, jobs, transactions over tables of any format.",
    tags={
        "catalogs": "The top of the tree.",
        "namespaces": "What groups tables, to any depth.",
        "tables": "Tables and views of every format, as the catalog records them.",
        "recovery": "What was dropped and can still be brought back.",
        "feed": "Every change, in order, from any point on.",
        "jobs": "Heavy work that waits for a worker.",
        "transactions": "Several operations that happen together or not at all.",
        "health": "The state of the server.",
    },
    parameters={
        "catalog": "The name of a catalog.",
        "namespace": "A namespace; the levels of a nested one are joined by U+001F (%1F).",
        "table": "The name of a table.",
        "job": "The id of a job.",
    },
    defaults={"stage": "ga", "since": "2.1.0-moorage.1"},
)


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list is wanted."""

    max_results: Annotated[int, Meta(ge=0, le=1000, description="How many at most; 0 is the server's choice.")] = 0
    page_token: Annotated[str, Meta(description="From the previous page; empty for the first.")] = ""


@lru_cache(maxsize=4096)
def levels(text: str, field: str = "namespace") -> tuple[str, ...]:
    """The names of a nested namespace, outermost first."""
    names = tuple(text.split(LEVELS))
    if not all(names):
        raise InvalidInput(f"{field} has an empty level", field=field)
    return names
