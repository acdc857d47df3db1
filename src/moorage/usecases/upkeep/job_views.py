"""What a caller sees of a job: nothing of the tables that it may not see.

A caller that may see the table or pipeline of a job sees the job. The job may have read other tables, and its record
names them.
"""

from __future__ import annotations

from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.jobs import Job
from moorage.core.lineage import LINEAGE, lineage_of, to_result
from moorage.core.privileges import Privilege
from moorage.usecases.catalog.job_arguments import visible_args
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep.lineage import visible_lineage


async def visible_job(ports: Ports, caller: Caller, job: Job) -> Job:
    """The job without the tables that the caller may not see. Workers and readers of the whole feed see all of it."""
    allow = ports.access.allow
    if allow(caller, Privilege.WORK, ()) or allow(caller, Privilege.FOLLOW, ()):
        return job
    result = job.result
    if result is not None and LINEAGE in result:
        result = {**result, **to_result(await visible_lineage(ports, caller, lineage_of(result)))}
    return replace(job, args=await visible_args(ports, caller, job.kind, job.args), result=result)
