"""Avro files by the schema that each was written with. Spark takes the fields of all files from one of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import fastavro
from fastavro.schema import SchemaParseException

from moorage.pipeline.ingest.files import UnreadableFile, open_location

_SCHEMA: Final = "avro.schema"
_BROKEN: Final = (ValueError, EOFError, IndexError, KeyError, SchemaParseException)


def by_schema(paths: Iterable[str]) -> dict[str, list[str]]:
    """The files with each schema, as the text in their headers."""
    groups: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        groups[_schema_of(path)].append(path)
    return groups


def _schema_of(path: str) -> str:
    system, name = open_location(path)
    with system.open_input_file(name) as source:
        try:
            return str(fastavro.reader(source).metadata[_SCHEMA])
        except _BROKEN as error:
            raise UnreadableFile(path, f"not an Avro file: {error}") from None
