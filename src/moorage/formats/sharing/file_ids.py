"""Ids of files: the same for the same file in every response, so that clients can cache and refresh by id."""

from __future__ import annotations

import hashlib
from typing import Final, Literal, TypeAlias

IdScheme: TypeAlias = Literal["parquet", "delta"]
"""Named after the response format that uses it by default."""
ID_SCHEMES: Final[tuple[IdScheme, ...]] = ("parquet", "delta")
HEADER: Final = "fileidhash"


def file_id(path: str, scheme: IdScheme) -> str:
    """The id of a file from its path in the log."""
    if scheme == "parquet":
        return hashlib.md5(path.encode(), usedforsecurity=False).hexdigest()
    return hashlib.sha256(path.encode()).hexdigest()
