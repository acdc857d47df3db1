"""What the routes to data have in common. Rows come as an Arrow IPC stream and leave as an IPC file."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta

from moorage.api.lance.tables import MISSING
from moorage.core.errors import InvalidInput, KeyReused, SecurableNotFound, VersionNotFound, VersionTaken
from moorage.core.securables import MAIN
from moorage.formats.lance.manifests import require_branch

STREAM: Final = "application/vnd.apache.arrow.stream"
FILE: Final = "application/vnd.apache.arrow.file"

UNFIT = (InvalidInput, SecurableNotFound, VersionNotFound, *MISSING)
"""What every operation on data may meet."""
LOST = (VersionTaken, KeyReused, *UNFIT)
"""And what those that change data may meet."""

Branch = Annotated[str | None, Meta(description="The branch that is meant; none is the main line.")]

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
    """The branch that a request means; None is the main line, which may also be called by its name."""
    ref = require_branch(text)
    return None if ref == MAIN else ref
