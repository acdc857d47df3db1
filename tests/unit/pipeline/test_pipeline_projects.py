"""Projects as `moorage pipeline` writes and reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.cli.failure import Failure
from moorage.cli.pipeline import run
from moorage.core.pipelines import encoded_in


def test_a_folder_in_which_spark_does_not_find_checkpoints_is_refused(tmp_path: Path) -> None:
    """Seen in a run: Spark wrote to `my%20dir`, and a full refresh looked for the checkpoints in `my dir`."""
    with pytest.raises(Failure, match="has the character ' ', which Spark encodes"):
        run(["init", "lake.sea.daily", "--folder", str(tmp_path / "my dir")])
    locations = {"file:///a%20b": "%", "s3a://lake/a#b": "#", "file:///a-b_c.d~é/(1)@x=1,y+": None}
    assert {location: encoded_in(location) for location in locations} == locations
