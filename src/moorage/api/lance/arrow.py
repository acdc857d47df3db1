"""Shared by the data routes. Requests send rows as an Arrow IPC stream; responses return an Arrow IPC file."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from moorage.api.lance.tables import MISSING_TABLE
from moorage.core.errors import InvalidInput, KeyReused, SecurableNotFound, VersionNotFound, VersionTaken
from moorage.core.securables import MAIN
from moorage.formats.lance.manifests import require_branch

STREAM: Final = "application/vnd.apache.arrow.stream"
FILE: Final = "application/vnd.apache.arrow.file"

READ_ERRORS = (InvalidInput, SecurableNotFound, VersionNotFound, *MISSING_TABLE)
"""The errors of every operation on data."""
CHANGE_ERRORS = (VersionTaken, KeyReused, *READ_ERRORS)
"""The errors of operations that change data."""

Branch = Annotated[str | None, Meta(description="The branch. The default is the main line.")]

EXAMPLE_DATA = {"id": "sample$sales$documents"}
EXAMPLE_ROWS = (
    "/////xgBAAAQAAAAAAAKAAwABgAFAAgACgAAAAABBAAMAAAACAAIAAAABAAIAAAABAAAAAMAAACwAAAAcAAAAAQAAABs////AAABEBQAAAAk"
    "AAAABAAAAAEAAAAgAAAABgAAAHZlY3RvcgAAAAAGAAgABAAGAAAAAgAAAKT///8AAAEDEAAAABwAAAAEAAAAAAAAAAQAAABpdGVtAAAGAAgA"
    "BgAGAAAAAAABANT///8AAAEFEAAAABwAAAAEAAAAAAAAAAQAAAB0ZXh0AAAAAAQABAAEAAAAEAAUAAgABgAHAAwAAAAQABAAAAAAAAECEAAA"
    "ABwAAAAEAAAAAAAAAAIAAABpZAAACAAMAAgABwAIAAAAAAAAAUAAAAAAAAAA/////xgBAAAUAAAAAAAAAAwAFgAGAAUACAAMAAwAAAAAAwQA"
    "GAAAAEgAAAAAAAAAAAAKABgADAAEAAgACgAAAJwAAAAQAAAAAgAAAAAAAAAAAAAACAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAABAAAAAA"
    "AAAAEAAAAAAAAAAAAAAAAAAAABAAAAAAAAAADAAAAAAAAAAgAAAAAAAAABUAAAAAAAAAOAAAAAAAAAAAAAAAAAAAADgAAAAAAAAAAAAAAAAA"
    "AAA4AAAAAAAAABAAAAAAAAAAAAAAAAQAAAACAAAAAAAAAAAAAAAAAAAAAgAAAAAAAAAAAAAAAAAAAAIAAAAAAAAAAAAAAAAAAAAEAAAAAAAA"
    "AAAAAAAAAAAAAQAAAAAAAAACAAAAAAAAAAAAAAAKAAAAFQAAAAAAAABhIHJlZCBib2F0YSBibHVlIGJvYXQAAAAAAIA/AAAAAAAAAAAAAIA/"
    "/////wAAAAA="
)
"""Two rows of (id: int64, text: string, vector: two floats)."""


def branch_in(text: str | None) -> str | None:
    """The branch that a request names; None for the main line, which a request may also name."""
    ref = require_branch(text)
    return None if ref == MAIN else ref
