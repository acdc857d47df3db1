"""The table of job kinds."""

from moorage.core.jobs import JOB_KINDS, PIPELINE
from moorage.pipeline.programs import PROGRAMS


def test_workers_have_a_program_for_exactly_the_kinds_marked_so() -> None:
    assert {*PROGRAMS, PIPELINE} == {kind.name for kind in JOB_KINDS.values() if kind.has_program}
