"""What a user asks an ingest to do, and what it did."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

INPUT_FORMATS: Final = ("json", "csv", "parquet", "avro", "text")
TABLE_FORMATS: Final = ("delta", "iceberg", "lance")
MODES: Final = ("append", "overwrite", "upsert")
TableFormat = Literal["delta", "iceberg", "lance"]
Mode = Literal["append", "overwrite", "upsert"]


class IngestRefused(Exception):
    """The ingest cannot be done as asked. The message says why and what to change."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """From where, to which table, and how."""

    source: str
    """A file, a folder or a pattern. Files in sub-folders count; names that begin with '.' or '_' do not."""
    table: str
    url: str
    token: str | None = None
    table_format: TableFormat = "delta"
    input_format: str | None = None
    """None: told by the names of the files."""
    mode: Mode = "append"
    key: tuple[str, ...] = ()
    schema: str | None = None
    """Columns in Spark's DDL for a new table. None: inferred from the first files."""
    evolve: bool = False
    """Whether fields that the table lacks become new columns. Otherwise they are reported."""
    partition_by: tuple[str, ...] = ()
    header: bool = True
    delimiter: str | None = None
    """Of CSV files. None: a tab in files named `.tsv`, else a comma."""
    files_per_batch: int = 10_000


class Summary(msgspec.Struct, kw_only=True):
    """What one run did."""

    table: str
    rows: int = 0
    files: int = 0
    bytes: int = 0
    rejected: int = 0
    rejected_table: str | None = None
    unreadable: list[str] = []
    """Files that could not be read. They are in the side table too."""
    unknown_fields: list[str] = []
    """Fields that the table has no column for. Their values were not stored."""
    changed_files: int = 0
    """Files that changed after they were ingested. They are not read again."""
    batches: int = 0
    seconds: float = 0.0

    def add(self, other: Summary) -> None:
        self.rows += other.rows
        self.files += other.files
        self.bytes += other.bytes
        self.rejected += other.rejected
        self.rejected_table = other.rejected_table or self.rejected_table
        self.unreadable += other.unreadable
        self.unknown_fields = sorted({*self.unknown_fields, *other.unknown_fields})
        self.batches += 1
