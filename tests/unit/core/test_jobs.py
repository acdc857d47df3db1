"""The table of job kinds."""

from moorage.client.spark import SparkSettings
from moorage.core.jobs import JOB_KINDS, PIPELINE
from moorage.pipeline.programs import PROGRAMS, spark_programs
from moorage.pipeline.table_programs import LIGHT_PROGRAMS, TABLE_PROGRAMS
from moorage.pipeline.warm_session import WarmSession
from moorage.usecases.registry import FORMATS


def test_workers_have_a_program_for_exactly_the_kinds_marked_so() -> None:
    programs = {*PROGRAMS, PIPELINE, *spark_programs(WarmSession(SparkSettings()))}
    assert programs == {kind.name for kind in JOB_KINDS.values() if kind.has_program}


def test_workers_have_a_program_for_exactly_the_jobs_that_formats_offer() -> None:
    offered = {(kind, name) for name, each in FORMATS.by_name.items() for kind in each.job_kinds}
    assert {*TABLE_PROGRAMS, *LIGHT_PROGRAMS} == offered


def test_a_kind_of_job_either_needs_spark_or_does_not() -> None:
    assert not {kind for kind, _ in TABLE_PROGRAMS} & {kind for kind, _ in LIGHT_PROGRAMS}
