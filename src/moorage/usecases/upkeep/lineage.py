"""Lineage: from a version of a table to the job that made it, and to what that job has read.

The result of the job is the record. The reports `origin` and `use` of a table only find the job, so they are written
before the job ends: a report whose job did not succeed, or does not name the table, is ignored.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, Literal

import msgspec

from moorage import fresh
from moorage.core.callers import Caller
from moorage.core.entries import ENDED, Done, FinishJob, JobHeld, JobState, Live, NewJob
from moorage.core.errors import InvalidInput
from moorage.core.ids import JobId, SecurableId
from moorage.core.jobs import INGEST, Job
from moorage.core.lineage import Input, Lineage, Output, Step, has_read, lineage_of, to_result
from moorage.core.privileges import Privilege
from moorage.core.reports import ReportKind
from moorage.core.securables import MAIN, Kind, Securable
from moorage.usecases.catalog.addresses import Address, Chain, reach
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle
from moorage.usecases.upkeep.jobs import prepare_job, settle_job
from moorage.usecases.upkeep.lineage_index import index_lineage

Direction = Literal["upstream", "downstream"]
_PAGE: Final = 500
_LOOK_BACK: Final = 100
"""How many versions are tried for the newest one that a job has made."""
_HIDDEN: Final = Input(table="", id="")


class TracedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a job that a caller may see. An input that it may not see has no name and no id."""

    job: Job
    pipeline: str | None
    step: Step


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that lead to a version, or from it, the nearest first."""

    table: Securable
    name: str
    version: str | None
    steps: tuple[TracedStep, ...]
    is_complete: bool


# --- recording -----------------------------------------------------------------------------------


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a client states about versions that it has written."""

    versions: tuple[str, ...]
    previous: str | None
    """The version that the new rows were added to; None if they replaced all rows."""
    inputs: tuple[tuple[Address, str | None], ...]
    sources: tuple[str, ...]
    columns: dict[str, tuple[str, ...]]
    counts: dict[str, Any]


async def record_origin(ports: Ports, errand: Errand, address: Address, origin: Origin) -> Job:
    """Record what versions of a table were made of, as the result of a job that a client has done."""
    table = (await reach(ports, errand.caller, address, Privilege.MODIFY))[-1]
    await _require_versions(ports, table, origin.versions)
    inputs = [] if origin.previous is None else [Input(table=str(address), id=table.id, version=origin.previous)]
    for each, version in origin.inputs:
        source = (await reach(ports, errand.caller, each, Privilege.READ))[-1]
        inputs.append(Input(table=str(each), id=source.id, version=version))
    step = Step(
        output=Output(table=str(address), id=table.id, versions=origin.versions),
        inputs=tuple(inputs),
        sources=origin.sources,
        columns=origin.columns,
    )
    args = {"table": list(address.path), "sources": list(origin.sources)}

    async def prepare_new(_: Caller) -> list[Part]:
        # A request that is interrupted before the job ends leaves it to the next request about the same versions.
        dedupe = f"{INGEST}/{table.id}/{','.join(map(str, origin.versions))}"
        new = NewJob(id=fresh.job_id(), kind=INGEST, subject=table.id, dedupe=dedupe, args=args)
        part = await prepare_job(ports, new)
        return [msgspec.structs.replace(part, expects=(Live(table.id), *part.expects))]

    job = await settle_job(ports, errand, prepare_new)
    result = {**origin.counts, **to_result(Lineage(steps=(step,)))}
    await index_lineage(ports, job.id, result)

    async def prepare_end(_: Caller) -> list[Part]:
        now = await ports.ledger.job(job.id)
        if now is None or now.state in ENDED:
            return [Part(done=Done(ids=(job.id,)))]
        end = FinishJob(job=job.id, state=JobState.SUCCEEDED, result=result)
        return [Part(expects=(JobHeld(job.id, None),), changes=(end,), done=Done(ids=(job.id,)))]

    await settle(ports, msgspec.structs.replace(errand, key=None), prepare_end)
    return await ports.ledger.job(job.id) or job


async def _require_versions(ports: Ports, table: Securable, versions: tuple[str, ...]) -> None:
    known = {
        str(ports.formats.of(table).stated_version(version))
        for version in await ports.ledger.versions(table.id, MAIN, limit=1000, descending=True)
    }
    for version in versions:
        if version not in known:
            raise InvalidInput(f"'{table.name}' has no version {version} among its newest 1,000", field="versions")


# --- tracing -------------------------------------------------------------------------------------


async def trace(
    ports: Ports, caller: Caller, address: Address, *, version: str | None, direction: Direction, limit: int
) -> Trace:
    """The steps that lead to a version of a table, or the steps that used it, across tables.

    Without a version: upstream of the newest version that a job has made, and downstream of every version.
    """
    chain = await reach(ports, caller, address, Privilege.READ)
    table = chain[-1]
    walk = _Walk(ports, caller, limit)
    if direction == "upstream" and version is None:
        version = await walk.newest_made(table)
    if direction == "downstream" or version is not None:
        await walk.follow(table.id, version, direction)
    return Trace(
        table=table,
        name=".".join(part.name for part in chain),
        version=version,
        steps=tuple(walk.steps),
        is_complete=not walk.is_cut,
    )


async def visible_lineage(ports: Ports, caller: Caller, lineage: Lineage) -> Lineage:
    """The steps whose output the caller may see, without the names and ids of inputs that it may not see."""
    walk = _Walk(ports, caller, limit=0)
    may_see = [await walk.may(step.output.id, Privilege.BROWSE) for step in lineage.steps]
    steps = [await walk.shown(step) for step, visible in zip(lineage.steps, may_see, strict=True) if visible]
    return Lineage(steps=tuple(steps))


class _Walk:
    """A search through the jobs, breadth first. It ends at tables that the caller may not read."""

    def __init__(self, ports: Ports, caller: Caller, limit: int) -> None:
        self._ports, self._caller, self._limit = ports, caller, limit
        self._chains: dict[str, Chain] = {}
        self.steps: list[TracedStep] = []
        self.is_cut = False

    async def newest_made(self, table: Securable) -> str | None:
        """The newest version of a table that a job has made."""
        newest = await self._ports.ledger.versions(table.id, MAIN, limit=_LOOK_BACK, descending=True)
        for each in newest:
            version = str(self._ports.formats.of(table).stated_version(each))
            if version.isdigit() and await self._origin(table.id, version) is not None:
                return version
        return None

    async def follow(self, table: str, version: str | None, direction: Direction) -> None:
        waiting, seen = deque([(table, version)]), {(table, version)}
        while waiting:
            found = await (self._made_by if direction == "upstream" else self._used_by)(*waiting.popleft())
            for job, step in found:
                if len(self.steps) >= self._limit:
                    self.is_cut = True
                    return
                self.steps.append(await self._traced(job, step))
                for further in _next(step, direction):
                    if further not in seen and await self.may(further[0], Privilege.READ):
                        seen.add(further)
                        waiting.append(further)

    async def _made_by(self, table: str, version: str | None) -> list[tuple[Job, Step]]:
        found = None if version is None else await self._origin(table, version)
        return [] if found is None else [found]

    async def _origin(self, table: str, version: str) -> tuple[Job, Step] | None:
        reports = await self._ports.ledger.reports(
            SecurableId(table), kind=ReportKind.ORIGIN, after=int(version) - 1, limit=1
        )
        if not reports or reports[0].version != int(version):
            return None
        job = await self._succeeded(reports[0].body)
        steps = () if job is None else lineage_of(job.result).steps
        step = next((step for step in steps if step.output.id == table), None)
        if job is None or step is None:
            return None
        # What the job did to the table until this version.
        made = tuple(each for each in step.output.versions[: _place(step.output.versions, version)])
        return job, msgspec.structs.replace(step, output=msgspec.structs.replace(step.output, versions=made))

    async def _used_by(self, table: str, version: str | None) -> list[tuple[Job, Step]]:
        found, after = [], -1
        while reports := await self._ports.ledger.reports(
            SecurableId(table), kind=ReportKind.USE, after=after, limit=_PAGE
        ):
            after = reports[-1].version
            for report in reports:
                job = await self._succeeded(report.body)
                steps = () if job is None else lineage_of(job.result).steps
                for step in steps:
                    is_other = step.output.id != table and has_read(step, table, version)
                    if job is not None and is_other and await self.may(step.output.id, Privilege.READ):
                        found.append((job, step))
            if len(found) > self._limit:
                break
        return found

    async def _succeeded(self, body: bytes) -> Job | None:
        job = await self._ports.ledger.job(JobId(msgspec.json.decode(body)["job"]))
        return job if job is not None and job.state is JobState.SUCCEEDED else None

    async def _traced(self, job: Job, step: Step) -> TracedStep:
        pipeline = None
        if job.subject is not None and job.subject != step.output.id:
            pipeline = await self._name(job.subject, "", kind=Kind.PIPELINE)
        return TracedStep(job=job, pipeline=pipeline or None, step=await self.shown(step))

    async def shown(self, step: Step) -> Step:
        """The step with the current names of its tables, without what the caller may not see."""
        inputs = []
        for each in step.inputs:
            name = await self._name(each.id, each.table)
            inputs.append(_HIDDEN if name is None else msgspec.structs.replace(each, table=name))
        output = msgspec.structs.replace(
            step.output, table=await self._name(step.output.id, step.output.table) or step.output.table
        )
        visible = all(each.id for each in inputs)
        return msgspec.structs.replace(
            step, output=output, inputs=tuple(inputs), columns=step.columns if visible else {}
        )

    async def _name(self, id: str, recorded: str, kind: Kind = Kind.TABLE) -> str | None:
        """The name of an object, for a caller that may see it. An object that is erased has its recorded name."""
        if not await self.may(id, Privilege.BROWSE):
            return None
        chain = await self._chain(id)
        if not chain or chain[-1].kind is not kind:
            return recorded
        return ".".join(part.name for part in chain)

    async def may(self, id: str, privilege: Privilege) -> bool:
        chain = await self._chain(id)
        allow = self._ports.access.allow
        return allow(self._caller, privilege, chain) if chain else allow(self._caller, Privilege.FOLLOW, ())

    async def _chain(self, id: str) -> Chain:
        if id not in self._chains:
            self._chains[id] = (await self._ports.ledger.lineage(SecurableId(id))).chain
        return self._chains[id]


def _place(versions: tuple[str, ...], version: str) -> int:
    return versions.index(version) + 1 if version in versions else len(versions)


def _next(step: Step, direction: Direction) -> list[tuple[str, str | None]]:
    """Where to continue: not at the earlier versions of the same table, which would list its whole history."""
    if direction == "downstream":
        return [(step.output.id, step.output.versions[-1])] if step.output.versions else []
    found = [(each.id, each.version if each.until is None else each.until) for each in step.inputs]
    return [(id, version) for id, version in found if id != step.output.id and version is not None]
