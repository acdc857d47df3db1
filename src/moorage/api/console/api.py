"""The console API: its prefix and description, and what its routes share."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated

import msgspec
from msgspec import Meta

from moorage.core.errors import InvalidInput
from moorage.http import Api

LEVEL_SEPARATOR = "\x1f"
"""Separates the levels of a nested namespace in a path. No name can contain it."""

console = Api(
    "console",
    prefix="/api/moorage/v1",
    file="console.yaml",
    title="Moorage console API",
    description="Catalogs, namespaces, the feed of all changes, jobs, and transactions over tables of any format.",
    tags={
        "catalogs": "Catalogs, which contain namespaces.",
        "namespaces": "Namespaces, which contain tables and other namespaces to any depth.",
        "tables": "Tables and views of every format, as the catalog records them.",
        "pipelines": "Projects of Spark's declarative pipelines, and their runs.",
        "recovery": "Dropped objects that can still be restored.",
        "feed": "All changes in order, from any sequence number on.",
        "jobs": "Heavy work that workers carry out.",
        "upkeep": "What workers ask for while they rewrite a table.",
        "transactions": "Several operations that are applied together or not at all.",
        "health": "The state of the server.",
        "recipients": "The recipients of shares.",
        "audit": "What principals did, and what they were refused.",
    },
    parameters={
        "catalog": "The name of a catalog.",
        "namespace": "The name of a namespace. The levels of a nested namespace are joined by U+001F (%1F).",
        "table": "The name of a table.",
        "table_id": "The id of a table.",
        "job": "The id of a job.",
        "recipient": "The name of a recipient.",
        "pipeline": "The name of a pipeline.",
    },
    defaults={"stage": "ga", "since": "2.1.0-moorage.1"},
)


class Paging(msgspec.Struct, frozen=True, kw_only=True):
    """Which page of a list to return."""

    max_results: Annotated[int, Meta(ge=0, le=1000, description="The most items to return; 0 means the default.")] = 0
    page_token: Annotated[str, Meta(description="The token of the previous page; empty for the first.")] = ""


@lru_cache(maxsize=4096)
def levels(text: str, field: str = "namespace") -> tuple[str, ...]:
    """The names of a nested namespace, outermost first."""
    names = tuple(text.split(LEVEL_SEPARATOR))
    if not all(names):
        raise InvalidInput(f"{field} has an empty level", field=field)
    return names
