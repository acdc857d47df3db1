"""Standard input as the source of `moorage ingest`."""

from __future__ import annotations

from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from moorage.cli.ingest import _parser, _request


def test_an_overwrite_has_no_rows_of_other_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The inputs of appends stay in the cache, so that the next run continues one that was killed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def source(text: str, *flags: str) -> Path:
        monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(text.encode())))
        command = ["-", "lake.sea.boats", "--url", "http://127.0.0.1:1", "--input-format", "csv", *flags]
        return Path(_request(_parser().parse_args(command)).source)

    appended = source("id\n1\n")
    replacing = [source(f"id\n{number}\n", "--mode", "overwrite") for number in (2, 3)]
    assert [file.read_text() for file in replacing] == ["id\n2\n", "id\n3\n"]
    assert source("id\n4\n") == appended
    assert sorted(file.read_text() for file in appended.iterdir()) == ["id\n1\n", "id\n4\n"]
