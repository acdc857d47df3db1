"""Scan planning: which files a client has to read, decided here instead of in the client.

A plan is nothing that is kept. Its id, and each of its tasks, says in itself what was asked and of which
snapshot, sealed like a page token; so every server answers it, and after a restart too. What a server
does hold are the plans that it is working on in the background, and those can be made again.
"""

from __future__ import annotations

import asyncio
from typing import Final, NoReturn

import msgspec
from msgspec.structs import replace

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, PlanNotFound, PlanTaskNotFound
from moorage.core.ids import SecurableId
from moorage.core.privileges import Privilege
from moorage.formats.iceberg.deletes import DeleteIndex
from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.manifests import ManifestFile
from moorage.formats.iceberg.scan_tasks import tasks_to_wire
from moorage.formats.iceberg.scans import PlanTableScanRequest, Scan, limit_to_rows
from moorage.formats.iceberg.slices import Slice, sliced
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.paging import seal, unseal
from moorage.usecases.iceberg.lookup import find_relation
from moorage.usecases.iceberg.manifests import Reach, cold_bytes, manifest_list, manifests
from moorage.usecases.iceberg.relations import load_found
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

LIFETIME_MS: Final = 60 * 60 * 1000
"""How long a plan can be asked for."""
FILES_IN_ANSWER: Final = 1_000
_MOST_TASKS: Final = 500
_LARGE_ANSWER: Final = 16 * 1024 * 1024
_FEW: Final = 2 * FILES_IN_ANSWER
"""So many files are planned where we stand; more take too long for that."""
_PATIENCE_SECONDS: Final = 2.0
"""How long a fetch waits for a plan before it says that it is not ready."""
_MUCH: Final = 16 * 1024 * 1024
"""Of manifests that have to be read first: then the client is told to come back."""
_LONGEST_ID: Final = 8 * 1024
"""Of what a plan's id says in itself, since it becomes part of an address."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a plan's id or task says: the scan, fixed to a snapshot and a schema, and until when it holds."""

    asked: PlanTableScanRequest | None
    """None if it is too long to be said in an address: such a plan is answered at once, and never again."""
    schema: int
    raw_bounds: bool
    until_ms: int
    part: Slice | None = None


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a plan, and how its client wants the answer."""

    asked: PlanTableScanRequest
    in_background: bool = False
    raw_bounds: bool = False


_encode = msgspec.json.Encoder().encode
_decode_ticket = msgspec.json.Decoder(Ticket).decode

_SUBMITTED: Final = b'{"status":"submitted"}'
_CANCELLED: Final = b'{"status":"cancelled"}'
_COMPLETED: Final = b'"status":"completed",'


async def plan(ports: Ports, caller: Caller, address: Address, wanted: Wanted) -> bytes:
    """The files to read, or the id of a plan that takes longer."""
    table, reach = await _found(ports, caller, address)
    scan = Scan(table, wanted.asked)
    ticket = _ticket(ports, scan, raw_bounds=wanted.raw_bounds)
    id = _sealed_id(ports, caller, reach.table, ticket)
    work = _Work(ports, caller, reach, scan, ticket)
    if len(id) > _LONGEST_ID:
        id = _sealed_id(ports, caller, reach.table, replace(ticket, asked=None))
    elif wanted.in_background or await work.is_long():
        ports.local.cache(_AT_WORK).put(id, _begun(ports, work))
        return b'{"status":"submitted","plan-id":' + _encode(id) + b"}"
    return await work.first_answer(b'"plan-id":' + _encode(id) + b",")


async def fetch_plan(ports: Ports, caller: Caller, address: Address, id: str) -> bytes:
    """The files of a plan that was submitted, or word that it is not ready."""
    table, reach = await _found(ports, caller, address)
    ticket = _opened_id(ports, caller, reach.table, id)
    cancelled, at_work = ports.local.cache(_CANCELLED_PLANS), ports.local.cache(_AT_WORK)
    if id in cancelled:
        return _CANCELLED
    task = at_work.get(id)
    if task is None:
        task = _begun(ports, _work_for(ports, caller, table, reach, ticket, PlanNotFound))
        at_work.put(id, task)
    await asyncio.wait((task,), timeout=_PATIENCE_SECONDS)
    if not task.done():
        return _SUBMITTED
    at_work.pop(id)
    if task.cancelled():  # by its client, or evicted for newer plans
        return _CANCELLED if id in cancelled else _SUBMITTED
    return task.result()


async def cancel_plan(ports: Ports, caller: Caller, address: Address, id: str) -> None:
    """Work on the plan ends, and this server gives it out no more. Others hold nothing that could be let go."""
    _, reach = await _found(ports, caller, address)
    _opened_id(ports, caller, reach.table, id)
    task = ports.local.cache(_AT_WORK).pop(id)
    if task is not None:
        task.cancel()
    ports.local.cache(_CANCELLED_PLANS).put(id, id)


async def fetch_tasks(ports: Ports, caller: Caller, address: Address, plan_task: str) -> bytes:
    """The files of one task of a plan."""
    table, reach = await _found(ports, caller, address)
    ticket = _opened(ports, _task_scope(caller, reach.table), plan_task)
    if ticket is None or ticket.part is None:
        _gone(PlanTaskNotFound)
    work = _work_for(ports, caller, table, reach, ticket, PlanTaskNotFound)
    return await work.answer_of(ticket.part)


async def _found(ports: Ports, caller: Caller, address: Address) -> tuple[Document, Reach]:
    table = (await find_relation(ports, caller, address, Privilege.READ))[-1]
    return (await load_found(ports, table)).metadata.doc, Reach(table.id, table.locations)


# --- ids and tasks --------------------------------------------------------------------------------------


def _ticket(ports: Ports, scan: Scan, *, raw_bounds: bool) -> Ticket:
    asked = scan.asked
    if asked.start_snapshot_id is None and scan.snapshot is not None:
        asked = replace(asked, snapshot_id=scan.snapshot["snapshot-id"])
    until_ms = ports.now_ms() + LIFETIME_MS
    return Ticket(asked=asked, schema=scan.schema["schema-id"], raw_bounds=raw_bounds, until_ms=until_ms)


def _plan_scope(caller: Caller, table: SecurableId) -> str:
    return f"{caller.id}/{table}/plan"


def _task_scope(caller: Caller, table: SecurableId) -> str:
    return f"{caller.id}/{table}/plan-task"


def _sealed_id(ports: Ports, caller: Caller, table: SecurableId, ticket: Ticket) -> str:
    return seal(ports.page_secret, _plan_scope(caller, table), _encode(ticket).decode())


def _opened_id(ports: Ports, caller: Caller, table: SecurableId, id: str) -> Ticket:
    ticket = _opened(ports, _plan_scope(caller, table), id)
    return _gone(PlanNotFound) if ticket is None else ticket


def _opened(ports: Ports, scope: str, token: str) -> Ticket | None:
    try:
        ticket = _decode_ticket(unseal(ports.page_secret, scope, token))
    except (InvalidInput, msgspec.DecodeError):
        return None
    return ticket if ports.now_ms() < ticket.until_ms else None


def _gone(error: type[PlanNotFound | PlanTaskNotFound]) -> NoReturn:
    what = "plan" if error is PlanNotFound else "plan task"
    raise error(f"There is no such {what}, or it has expired; plan the scan again")


# --- the work -------------------------------------------------------------------------------------------


class _Work:
    """The planning of one scan."""

    def __init__(self, ports: Ports, caller: Caller, reach: Reach, scan: Scan, ticket: Ticket) -> None:
        self._ports = ports
        self._scope = _task_scope(caller, reach.table)
        self._reach = reach
        self._scan = scan
        self._ticket = ticket
        self._manifests: tuple[dict[int, ManifestFile], list[ManifestFile]] | None = None

    async def is_long(self) -> bool:
        """Whether much has to be read before there is a first answer."""
        data, deletes = await self._listed()
        slices = self._sliced(data)
        first = [data[at] for at in slices[0].among(data)] if slices else []
        return cold_bytes(self._ports, self._reach, [*deletes, *first]) > _MUCH

    async def first_answer(self, head: bytes) -> bytes:
        """The files that come first, and tasks for all others."""
        slices = self._sliced((await self._listed())[0])
        return await self._answer(slices[0] if slices else None, slices[1:], _COMPLETED + head)

    async def answer_of(self, part: Slice) -> bytes:
        """The files of one task."""
        return await self._answer(part, [], b"")

    async def _answer(self, part: Slice | None, later: list[Slice], head: bytes) -> bytes:
        data, deletes = await self._listed()
        wanted = [] if part is None else [data[at] for at in part.among(data)]
        found = await manifests(self._ports, self._reach, [*wanted, *deletes], self._scan.specs)
        files = [file for manifest in found[: len(wanted)] for file in manifest.files]
        deleting = [file for manifest in found[len(wanted) :] for file in manifest.files]

        def answer() -> bytes:
            index = DeleteIndex(deleting, self._scan.specs)
            tasks = self._scan.tasks(files if part is None else part.cut(files), index)
            enough, is_enough = limit_to_rows(tasks, self._scan.asked.min_rows_requested)
            rest = [] if is_enough else [self._sealed(each) for each in later]
            return tasks_to_wire(self._scan, enough, rest, raw_bounds=self._ticket.raw_bounds, head=head)

        return answer() if len(files) + len(deleting) <= _FEW else await asyncio.to_thread(answer)

    async def _listed(self) -> tuple[dict[int, ManifestFile], list[ManifestFile]]:
        """The manifests of data that can matter, by their place in the list, and those of deletes."""
        if self._manifests is None:
            snapshot = self._scan.snapshot
            listed = () if snapshot is None else await manifest_list(self._ports, self._reach, snapshot)
            kept = {at: each for at, each in enumerate(listed) if self._scan.keeps(each)}
            data = {at: each for at, each in kept.items() if not each.is_deletes}
            self._manifests = data, [each for each in kept.values() if each.is_deletes]
        return self._manifests

    def _sliced(self, data: dict[int, ManifestFile]) -> list[Slice]:
        """Every task repeats the request, and every file what is left of its filter: of long ones there are fewer."""
        said = len(_encode(self._ticket.asked))
        files, tasks = (max(1, _LARGE_ANSWER // said // each) for each in (1, 4))
        return sliced(data, min(FILES_IN_ANSWER, files), most=min(_MOST_TASKS, tasks))

    def _sealed(self, part: Slice) -> str:
        return seal(self._ports.page_secret, self._scope, _encode(replace(self._ticket, part=part)).decode())


def _work_for(
    ports: Ports,
    caller: Caller,
    table: Document,
    reach: Reach,
    ticket: Ticket,
    error: type[PlanNotFound | PlanTaskNotFound],
) -> _Work:
    """The same planning again. If the table has let the snapshot or schema go, the plan is gone too."""
    if ticket.asked is None:
        _gone(error)
    try:
        scan = Scan(table, ticket.asked, schema_id=ticket.schema)
    except InvalidInput:
        _gone(error)
    return _Work(ports, caller, reach, scan, ticket)


# --- in the background ----------------------------------------------------------------------------------

_AT_WORK: Final = CacheKind[str, "asyncio.Task[bytes]"](
    "iceberg plans at work", limit=64, on_evict=lambda task: task.cancel()
)
"""The oldest is cancelled when there are too many: a request for it plans again."""
_CANCELLED_PLANS: Final = CacheKind[str, str]("cancelled iceberg plans", limit=10_000)


def _begun(ports: Ports, work: _Work) -> asyncio.Task[bytes]:
    """The planning, running in the background."""
    task = ports.local.start(work.first_answer(b""))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
