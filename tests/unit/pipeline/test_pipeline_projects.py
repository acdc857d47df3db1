"""Projects as `moorage pipeline` writes and reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from moorage.cli.failure import Failure
from moorage.cli.pipeline import _files, run
from moorage.core.pipelines import encoded_in


@pytest.mark.parametrize("name", ["daily", "my-daily", "2nd.daily"])
def test_a_sample_is_valid_whatever_its_name_and_folder(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "daily-é'"
    assert run(["init", f"lake.sea.{name}", "--folder", str(folder)]) == 0
    files = _files(folder)
    spec = yaml.safe_load(files.pop("spark-pipeline.yml"))
    assert (spec["name"], spec["storage"]) == (name.rpartition(".")[2], f"file://{folder}/state")
    ((file, text),) = files.items()
    compile(text, file, "exec")


def test_a_folder_in_which_spark_does_not_find_checkpoints_is_refused(tmp_path: Path) -> None:
    """Seen in a run: Spark wrote to `my%20dir`, and a full refresh looked for the checkpoints in `my dir`."""
    with pytest.raises(Failure, match="has the character ' ', which Spark encodes"):
        run(["init", "lake.sea.daily", "--folder", str(tmp_path / "my dir")])
    locations = {"file:///a%20b": "%", "s3a://lake/a#b": "#", "file:///a-b_c.d~é/(1)@x=1,y+": None}
    assert {location: encoded_in(location) for location in locations} == locations


def test_a_file_in_another_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "spark-pipeline.yml").write_text("name: daily")
    (tmp_path / "a.sql").write_bytes(b"-- caf\xe9")
    with pytest.raises(Failure, match=r"a\.sql' is not UTF-8: .* at byte 6"):
        _files(tmp_path)
