"""The table of job kinds."""

from moorage.client.spark import SparkSettings
from moorage.core.jobs import JOB_KINDS
from moorage.pipeline.programs import PROGRAMS, spark_programs
from moorage.pipeline.warm_session import WarmSession


def test_workers_have_a_program_for_exactly_the_kinds_marked_so() -> None:
    programs = {*PROGRAMS, *spark_programs(WarmSession(SparkSettings()))}
    assert programs == {kind.name for kind in JOB_KINDS.values() if kind.has_program}
