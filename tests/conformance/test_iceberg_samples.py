"""The sample files of Iceberg's own tests: what Java reads is accepted, and what it refuses is refused."""

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
"""Words in the names of files that no reader should accept."""
COMPLETED = "TableMetadataV1MissingSchemaType"
"""Java refuses it. We accept it, and add the type that every schema has."""


def samples() -> dict[str, Document]:
    (jar,) = (TOOLS / "rck").glob("iceberg-core-*-tests.jar")
    with ZipFile(jar) as files:
        names = [name for name in files.namelist() if "Metadata" in name and name.endswith(".json")]
        return {name.rpartition("/")[2].removesuffix(".json"): json.loads(files.read(name)) for name in names}


@pytest.mark.slow
def test_metadata_is_accepted_if_and_only_if_java_reads_it() -> None:
    found = samples()
    read, refused = set[str](), set[str]()
    for name, raw in found.items():
        try:
            (parse_view if "View" in name else parse_table)(raw)
        except InvalidInput:
            refused.add(name)
        else:
            read.add(name)
    assert refused == {name for name in found if any(word in name for word in WRONG)} - {COMPLETED}
    assert len(read - {COMPLETED}) == 7
