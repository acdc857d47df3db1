"""Which tables of a pipeline can be computed from scratch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from moorage.client.answers import Flow
from moorage.pipeline.program import PermanentFailure
from moorage.pipeline.sdp.runs import refreshed_tables, require_whole, streams_of, without_full_refresh
from tests.unit.pipeline.test_results import BRONZE, GOLD, PIPELINE, SINK

SILVER, CLEAN = "lake.sea.silver", "lake.sea.clean"
TWO = replace(
    PIPELINE,
    tables=(BRONZE, SILVER),
    sinks=(),
    flows=(
        Flow(name="bronze", target=BRONZE, sources=("/in",)),
        Flow(name="clean", target=CLEAN, reads=(BRONZE,)),
        Flow(name="silver", target=SILVER, reads=(CLEAN,)),
        Flow(name="gold", target=GOLD, reads=(SILVER, BRONZE)),
    ),
)


@pytest.mark.parametrize(
    ("order", "tables"),
    [
        ({}, set()),
        ({"full_refresh": ["bronze", GOLD]}, {BRONZE}),
        ({"full_refresh": [SILVER]}, {SILVER}),
        ({"full_refresh_all": True}, {BRONZE, SILVER}),
    ],
)
def test_streaming_tables_are_emptied_by_a_full_refresh(order: dict[str, Any], tables: set[str]) -> None:
    assert refreshed_tables(TWO, order) == tables


def test_streams_of_a_table_are_found_also_through_temporary_views() -> None:
    assert streams_of(TWO, {BRONZE}) == {SILVER: BRONZE}
    assert streams_of(TWO, {BRONZE, SILVER}) == {SILVER: BRONZE}
    assert streams_of(TWO, {SILVER}) == streams_of(TWO, set()) == {}


def test_a_table_is_not_computed_again_without_those_that_its_rows_were_streamed_to(tmp_path: Path) -> None:
    stored = replace(TWO, files={"spark-pipeline.yml": f"storage: {tmp_path.as_uri()}"})
    require_whole(stored, {SILVER: BRONZE}, {BRONZE, SILVER}, {"full_refresh_all": True})
    with pytest.raises(PermanentFailure, match=f"Add --full-refresh {SILVER}"):
        require_whole(stored, {SILVER: BRONZE}, {BRONZE}, {})
    with pytest.raises(PermanentFailure, match=f"the sink '{SINK}' would get rows a second time"):
        require_whole(PIPELINE, {SINK: BRONZE}, {BRONZE}, {})
    elsewhere = replace(TWO, files={"spark-pipeline.yml": f"storage: {tmp_path.as_uri()}/none"})
    with pytest.raises(PermanentFailure, match="needs access to the checkpoints"):
        require_whole(elsewhere, {SILVER: BRONZE}, {BRONZE, SILVER}, {})


def test_tables_that_were_emptied_are_filled_by_a_run_without_a_full_refresh() -> None:
    emptied = {BRONZE, SILVER}
    assert without_full_refresh({"full_refresh_all": True, "conf": {}}, emptied) == {"conf": {}}
    named = without_full_refresh({"full_refresh": ["bronze", "silver"], "refresh": [GOLD]}, emptied)
    assert named == {"refresh": sorted([BRONZE, SILVER, GOLD])}
