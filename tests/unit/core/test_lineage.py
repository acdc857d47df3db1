"""Lineage in the results of jobs."""

from __future__ import annotations

from moorage import fresh
from moorage.core.lineage import Input, Lineage, Output, Step, has_read, lineage_of, order_of, resolve_reads, to_result

STEP = Step(
    output=Output(table="lake.sea.gold", id="g", versions=("7",)),
    inputs=(Input(table="lake.sea.silver", id="s", version="3", until="5"),),
)


def test_a_result_keeps_its_lineage_and_any_other_result_has_none() -> None:
    lineage = Lineage(steps=(STEP,))
    assert lineage_of(to_result(lineage)) == lineage
    for other in (None, {}, {"lineage": None}, {"lineage": {"steps": [{"output": 7}]}}, {"lineage": {"steps": "x"}}):
        assert lineage_of(other) == Lineage()
    minus = {"lineage": {"steps": [{"output": {"table": "t", "id": "i", "versions": ["-1"]}}]}}
    assert lineage_of(minus) == Lineage()


def test_a_step_has_read_the_versions_that_it_names() -> None:
    assert has_read(STEP, "s", "3")
    assert has_read(STEP, "s", "5")
    assert has_read(STEP, "s", None)
    assert not has_read(STEP, "s", "6")
    assert not has_read(STEP, "g", None)


def test_jobs_are_ordered_by_their_creation_in_63_bits() -> None:
    numbers = [order_of(fresh.job_id()) for _ in range(20)]
    assert numbers == sorted(numbers)
    assert max(numbers) < 2**63


def test_reads_are_found_across_temporary_views_also_if_they_form_a_cycle() -> None:
    flows = {
        "silver": ("clean", "ports"),
        "clean": ("bronze", "loop", "/in"),
        "loop": ("clean",),
        "bronze": ("/in",),
        "gold": ("silver",),
    }
    found = dict(resolve_reads(flows, frozenset(("bronze", "silver", "gold"))))
    assert found == {"bronze": ("/in",), "silver": ("/in", "bronze", "ports"), "gold": ("silver",)}
