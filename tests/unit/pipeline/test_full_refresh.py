"""Which tables of a pipeline can be computed from scratch."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from moorage.client.answers import Flow
from moorage.pipeline.program import PermanentFailure
from moorage.pipeline.sdp.runs import refreshed_tables, require_no_stream_of
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


def test_a_table_that_feeds_a_stream_cannot_be_emptied_also_through_a_temporary_view() -> None:
    with pytest.raises(PermanentFailure, match=f"'{SILVER}' is filled by a stream of it"):
        require_no_stream_of(TWO, {BRONZE})
    with pytest.raises(PermanentFailure, match=f"'{SINK}' is filled by a stream of it"):
        require_no_stream_of(PIPELINE, {BRONZE})


def test_a_table_that_only_views_read_can_be_emptied() -> None:
    require_no_stream_of(TWO, {SILVER})
    require_no_stream_of(TWO, set())
