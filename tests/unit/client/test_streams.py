"""The identity of a stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.client.streams import query_id


@pytest.mark.parametrize("name", ["plain", "a b", "a%20b", "a#b?c", "é"])
def test_a_checkpoint_is_found_under_the_name_that_spark_gave_it(tmp_path: Path, name: str) -> None:
    """Spark encodes and decodes nothing: `file:///a%20b` is the folder `a%20b`."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "metadata").write_text('{"id":"6f1c"}')
    for location in (f"{tmp_path}/{name}", f"file://{tmp_path}/{name}/", f"file:{tmp_path}/{name}"):
        assert query_id(location) == "6f1c"
