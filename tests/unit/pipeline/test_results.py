"""The result of a run, from the metadata of its tables before and after it."""

from __future__ import annotations

from typing import Any

from moorage.client.answers import Flow, Pipeline
from moorage.core.lineage import lineage_of
from moorage.pipeline.sdp.results import State, involved_tables, result_of

BRONZE, GOLD, SINK, PORTS = "lake.sea.bronze", "lake.sea.gold", "lake.sea.sink", "lake.sea.ports"
PIPELINE = Pipeline(
    id="p",
    kind="pipeline",
    name="daily",
    owner="ann",
    revision=1,
    created_at_ms=0,
    created_by="ann",
    updated_at_ms=0,
    updated_by="ann",
    digest="d",
    tables=(BRONZE,),
    views=(GOLD,),
    sinks=(SINK,),
    flows=(
        Flow(name="bronze", target=BRONZE, sources=("/in",)),
        Flow(name="clean", target="lake.sea.clean", reads=(BRONZE, PORTS)),
        Flow(name="gold", target=GOLD, reads=("lake.sea.clean",)),
        Flow(name="sink", target=SINK, reads=(BRONZE,)),
    ),
    files={},
)


def iceberg(*snapshots: tuple[int, dict[str, str]]) -> State:
    """A table with these snapshots (id, summary), each the child of the one before it."""
    made: list[dict[str, Any]] = []
    for id, summary in snapshots:
        parent = {"parent-snapshot-id": made[-1]["snapshot-id"]} if made else {}
        made.append({"snapshot-id": id, "summary": summary, **parent})
    current = snapshots[-1][0]
    return State(id="i", version=str(current), metadata={"current-snapshot-id": current, "snapshots": made})


def stream(rows: int) -> dict[str, str]:
    return {"spark.sql.streaming.queryId": "q", "added-records": str(rows)}


OLD, FAILED, NEW = (1, stream(5)), (2, stream(3)), (4, stream(2))
COMPACTED = (3, {"total-records": "8"})
BEFORE = {
    BRONZE: iceberg(OLD, FAILED),
    GOLD: iceberg((10, {"total-records": "1"})),
    SINK: State(id="s", version="6"),
    PORTS: State(id="o", version="3"),
}
AFTER = {
    BRONZE: iceberg(OLD, FAILED, COMPACTED, NEW),
    GOLD: iceberg((10, {"total-records": "1"}), (11, {"deleted-records": "1"}), (12, {"added-records": "4"})),
    SINK: State(id="s", version="8"),
    PORTS: State(id="o", version="4"),
}


def test_every_table_that_is_read_or_written_is_involved_and_a_temporary_view_is_not() -> None:
    assert involved_tables(PIPELINE) == sorted([BRONZE, GOLD, SINK, PORTS])


def test_a_step_has_the_versions_of_streams_since_the_last_run_and_names_what_was_read() -> None:
    result = result_of(PIPELINE, BEFORE, AFTER, published={GOLD: 12}, recorded={BRONZE: "1", SINK: "6"})
    steps = {step.output.table: step for step in lineage_of(result).steps}
    assert steps[BRONZE].output.versions == ("2", "4")  # that of the failed run, and not the compaction
    assert steps[BRONZE].sources == ("/in",)
    assert steps[GOLD].output.versions == ("11", "12")
    assert [(each.table, each.version, each.until) for each in steps[GOLD].inputs] == [
        (BRONZE, "4", None),
        (PORTS, "3", "4"),
    ]
    assert steps[SINK].output.versions == ("7", "8")
    assert result["tables"][BRONZE] == {"rows": 10, "added": 5, "version": "4"}
    assert result["tables"][GOLD]["rows"] == 4


def test_a_run_that_has_written_nothing_has_no_step() -> None:
    recorded = {BRONZE: "4", SINK: "8"}
    result = result_of(PIPELINE, AFTER, AFTER, published={}, recorded=recorded)
    assert lineage_of(result).steps == ()
    assert result["tables"][BRONZE]["added"] == 0
