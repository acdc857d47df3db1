"""The one table of job kinds."""

from moorage.core.jobs import JOB_KINDS
from moorage.pipeline.programs import PROGRAMS


def test_a_worker_has_a_program_for_each_kind_that_the_table_says_has_one() -> None:
    assert set(PROGRAMS) == {kind.name for kind in JOB_KINDS.values() if kind.has_program}
