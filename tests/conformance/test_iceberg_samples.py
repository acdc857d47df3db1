"""The sample files of Iceberg's own tests: what Java reads is taken in, and what it refuses is not."""

from __future__ import annotations

import json
from zipfile import ZipFile

import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.table_metadata import parse_table
from moorage.formats.iceberg.views import parse_view
from scripts.steps import TOOLS

WRONG = ("Missing", "Invalid", "NotFound", "Unsupported", "Multiple")
"""In the names of files that no reader should accept."""
MENDED = "TableMetadataV1MissingSchemaType"
"""Java refuses it. Here it is told to readers with the type that every schema has."""


def samples() -> dict[str, Document]:
    (jar,) = (TOOLS / "rck").glob("iceberg-core-*-tests.jar")
    with ZipFile(jar) as files:
        names = [name for name in files.namelist() if "Metadata" in name and name.endswith(".json")]
        return {name.rpartition("/")[2].removesuffix(".json"): json.loads(files.read(name)) for name in names}


@pytest.mark.slow
def test_metadata_is_taken_in_if_and_only_if_java_reads_it() -> None:
    found = samples()
    read, refused = set[str](), set[str]()
    for name, raw in found.items():
        try:
            (parse_view if "View" in name else parse_table)(raw)
        except InvalidInput:
            refused.add(name)
        else:
            read.add(name)
    assert refused == {name for name in found if any(word in name for word in WRONG)} - {MENDED}
    assert len(read - {MENDED}) == 7
