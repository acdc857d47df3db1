"""The actions of a Delta log that name files, with all their fields.

A staged commit is read by the same rules as the log, because every ratified commit must remain readable.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
ShortCount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Texts = dict[str, str | None]


class DeletionVector(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Where the set of deleted rows of a file is stored."""

    storage_type: Literal["u", "i", "p"]
    path_or_inline_dv: str
    offset: ShortCount | None = None
    size_in_bytes: ShortCount
    cardinality: Long

    @property
    def unique_id(self) -> str:
        """The protocol's unique id, which distinguishes two vectors of one file."""
        offset = "" if self.offset is None else f"@{self.offset}"
        return f"{self.storage_type}{self.path_or_inline_dv}{offset}"


class AddFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A logical file of the table."""

    path: str
    partition_values: Texts
    size: Count
    modification_time: Long
    data_change: bool
    stats: str | None = None
    tags: Texts | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Count | None = None
    default_row_commit_version: Count | None = None
    clustering_provider: str | None = None


class RemoveFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """A logical file that is no longer part of the table."""

    path: str
    data_change: bool = True
    deletion_timestamp: Long | None = None
    extended_file_metadata: bool | None = None
    partition_values: Texts | None = None
    size: Count | None = None
    stats: str | None = None
    tags: Texts | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: Count | None = None
    default_row_commit_version: Count | None = None


class ChangeFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """The rows that a version changed, written for readers of the change data feed."""

    path: str
    partition_values: Texts
    size: Count
    data_change: bool = False
    tags: Texts | None = None
