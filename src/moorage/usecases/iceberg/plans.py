"""Scan planning: the server decides which files a client has to read.

Plans are not stored. The id of a plan and each of its tasks contain the request and the snapshot, sealed like a page
token. So every server can answer them, even after a restart. A server holds only the plans that it computes in the
background, and any server can compute them again.
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
from moorage.usecases.iceberg.manifests import TableFiles, read_manifest_list, read_manifests, uncached_bytes
from moorage.usecases.iceberg.relations import load_found
from moorage.usecases.local_state import CacheKind
from moorage.usecases.ports import Ports

PLAN_LIFETIME_MS: Final = 60 * 60 * 1000
"""How long the id and the tasks of a plan are valid."""
MAX_FILES_PER_ANSWER: Final = 1_000
_MAX_TASKS: Final = 500
_MAX_REPEATED_BYTES: Final = 16 * 1024 * 1024
_MAX_INLINE_FILES: Final = 2 * MAX_FILES_PER_ANSWER
"""Up to this many files are planned on the event loop; more are planned in a thread."""
_MAX_WAIT_SECONDS: Final = 2.0
"""How long a fetch waits for a plan before it returns `submitted`."""
_MAX_UNCACHED_BYTES: Final = 16 * 1024 * 1024
"""If more bytes of manifests have to be read first, the plan is computed in the background."""
_MAX_ID_LENGTH: Final = 8 * 1024
"""The limit for a plan's id, which becomes part of a URL."""


class PlanToken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a plan's id or task: the scan, fixed to a snapshot and a schema, and its expiry."""

    asked: PlanTableScanRequest | None
    """None if it is too long for a URL. Such a plan is returned immediately, and cannot be fetched later."""
    schema: int
    raw_bounds: bool
    until_ms: int
    part: Slice | None = None


class PlanRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A scan to plan, and the form of response that the client asks for."""

    scan: PlanTableScanRequest
    in_background: bool = False
    raw_bounds: bool = False


_encode = msgspec.json.Encoder().encode
_decode_token = msgspec.json.Decoder(PlanToken).decode

_SUBMITTED: Final = b'{"status":"submitted"}'
_CANCELLED: Final = b'{"status":"cancelled"}'
_COMPLETED: Final = b'"status":"completed",'


async def plan_scan(ports: Ports, caller: Caller, address: Address, request: PlanRequest) -> bytes:
    """The files to read, or the id of a plan that takes longer."""
    table, source = await _find_table(ports, caller, address)
    scan = Scan(table, request.scan)
    token = _new_token(ports, scan, raw_bounds=request.raw_bounds)
    id = _seal_id(ports, caller, source.table, token)
    planning = _Planning(ports, caller, source, scan, token)
    if len(id) > _MAX_ID_LENGTH:
        id = _seal_id(ports, caller, source.table, replace(token, asked=None))
    elif request.in_background or await planning.is_long():
        ports.local.cache(_RUNNING).put(id, _start(ports, planning))
        return b'{"status":"submitted","plan-id":' + _encode(id) + b"}"
    return await planning.first_answer(b'"plan-id":' + _encode(id) + b",")


async def fetch_plan(ports: Ports, caller: Caller, address: Address, id: str) -> bytes:
    """The files of a submitted plan, or the status that it is not ready or cancelled."""
    table, source = await _find_table(ports, caller, address)
    token = _unseal_id(ports, caller, source.table, id)
    cancelled, running = ports.local.cache(_CANCELLED_PLANS), ports.local.cache(_RUNNING)
    if id in cancelled:
        return _CANCELLED
    task = running.get(id)
    if task is None:
        task = _start(ports, _planning_for(ports, caller, table, source, token, PlanNotFound))
        running.put(id, task)
    await asyncio.wait((task,), timeout=_MAX_WAIT_SECONDS)
    if not task.done():
        return _SUBMITTED
    running.pop(id)
    if task.cancelled():  # by its client, or evicted to make room for newer plans
        return _CANCELLED if id in cancelled else _SUBMITTED
    return task.result()


async def cancel_plan(ports: Ports, caller: Caller, address: Address, id: str) -> None:
    """Stop computing the plan; this server reports it as cancelled. Other servers hold nothing of it."""
    _, source = await _find_table(ports, caller, address)
    _unseal_id(ports, caller, source.table, id)
    task = ports.local.cache(_RUNNING).pop(id)
    if task is not None:
        task.cancel()
    ports.local.cache(_CANCELLED_PLANS).put(id, id)


async def fetch_tasks(ports: Ports, caller: Caller, address: Address, plan_task: str) -> bytes:
    """The files of one task of a plan."""
    table, source = await _find_table(ports, caller, address)
    token = _unseal(ports, _task_scope(caller, source.table), plan_task)
    if token is None or token.part is None:
        _raise_not_found(PlanTaskNotFound)
    planning = _planning_for(ports, caller, table, source, token, PlanTaskNotFound)
    return await planning.answer_of(token.part)


async def _find_table(ports: Ports, caller: Caller, address: Address) -> tuple[Document, TableFiles]:
    table = (await find_relation(ports, caller, address, Privilege.READ))[-1]
    return (await load_found(ports, table)).metadata.doc, TableFiles(table.id, table.locations)


# --- ids and tasks --------------------------------------------------------------------------------------


def _new_token(ports: Ports, scan: Scan, *, raw_bounds: bool) -> PlanToken:
    asked = scan.asked
    if asked.start_snapshot_id is None and scan.snapshot is not None:
        asked = replace(asked, snapshot_id=scan.snapshot["snapshot-id"])
    until_ms = ports.now_ms() + PLAN_LIFETIME_MS
    return PlanToken(asked=asked, schema=scan.schema["schema-id"], raw_bounds=raw_bounds, until_ms=until_ms)


def _plan_scope(caller: Caller, table: SecurableId) -> str:
    return f"{caller.id}/{table}/plan"


def _task_scope(caller: Caller, table: SecurableId) -> str:
    return f"{caller.id}/{table}/plan-task"


def _seal_id(ports: Ports, caller: Caller, table: SecurableId, token: PlanToken) -> str:
    return seal(ports.page_secret, _plan_scope(caller, table), _encode(token).decode())


def _unseal_id(ports: Ports, caller: Caller, table: SecurableId, id: str) -> PlanToken:
    token = _unseal(ports, _plan_scope(caller, table), id)
    return _raise_not_found(PlanNotFound) if token is None else token


def _unseal(ports: Ports, scope: str, sealed: str) -> PlanToken | None:
    try:
        token = _decode_token(unseal(ports.page_secret, scope, sealed))
    except (InvalidInput, msgspec.DecodeError):
        return None
    return token if ports.now_ms() < token.until_ms else None


def _raise_not_found(error: type[PlanNotFound | PlanTaskNotFound]) -> NoReturn:
    what = "plan" if error is PlanNotFound else "plan task"
    raise error(f"The {what} does not exist or has expired; plan the scan again")


# --- planning -------------------------------------------------------------------------------------------


class _Planning:
    """The planning of one scan."""

    def __init__(self, ports: Ports, caller: Caller, source: TableFiles, scan: Scan, token: PlanToken) -> None:
        self._ports = ports
        self._scope = _task_scope(caller, source.table)
        self._source = source
        self._scan = scan
        self._token = token
        self._manifests: tuple[dict[int, ManifestFile], list[ManifestFile]] | None = None

    async def is_long(self) -> bool:
        """Whether many bytes have to be read before the first response."""
        data, deletes = await self._list_manifests()
        slices = self._slices(data)
        first = [data[at] for at in slices[0].among(data)] if slices else []
        return uncached_bytes(self._ports, self._source, [*deletes, *first]) > _MAX_UNCACHED_BYTES

    async def first_answer(self, head: bytes) -> bytes:
        """The first files, and tasks for all others."""
        slices = self._slices((await self._list_manifests())[0])
        return await self._answer(slices[0] if slices else None, slices[1:], _COMPLETED + head)

    async def answer_of(self, part: Slice) -> bytes:
        """The files of one task."""
        return await self._answer(part, [], b"")

    async def _answer(self, part: Slice | None, later: list[Slice], head: bytes) -> bytes:
        data, deletes = await self._list_manifests()
        wanted = [] if part is None else [data[at] for at in part.among(data)]
        found = await read_manifests(self._ports, self._source, [*wanted, *deletes], self._scan.specs)
        files = [file for manifest in found[: len(wanted)] for file in manifest.files]
        deleting = [file for manifest in found[len(wanted) :] for file in manifest.files]

        def answer() -> bytes:
            index = DeleteIndex(deleting, self._scan.specs)
            tasks = self._scan.tasks(files if part is None else part.cut(files), index)
            enough, is_enough = limit_to_rows(tasks, self._scan.asked.min_rows_requested)
            rest = [] if is_enough else [self._seal_task(each) for each in later]
            return tasks_to_wire(self._scan, enough, rest, raw_bounds=self._token.raw_bounds, head=head)

        return answer() if len(files) + len(deleting) <= _MAX_INLINE_FILES else await asyncio.to_thread(answer)

    async def _list_manifests(self) -> tuple[dict[int, ManifestFile], list[ManifestFile]]:
        """The data manifests that can match, by their index in the list, and the delete manifests."""
        if self._manifests is None:
            snapshot = self._scan.snapshot
            listed = () if snapshot is None else await read_manifest_list(self._ports, self._source, snapshot)
            kept = {at: each for at, each in enumerate(listed) if self._scan.keeps(each)}
            data = {at: each for at, each in kept.items() if not each.is_deletes}
            self._manifests = data, [each for each in kept.values() if each.is_deletes]
        return self._manifests

    def _slices(self, data: dict[int, ManifestFile]) -> list[Slice]:
        """Fewer files and tasks for a long request: every task repeats it, and every file its residual filter."""
        request_bytes = len(_encode(self._token.asked))
        files, tasks = (max(1, _MAX_REPEATED_BYTES // request_bytes // each) for each in (1, 4))
        return sliced(data, min(MAX_FILES_PER_ANSWER, files), most=min(_MAX_TASKS, tasks))

    def _seal_task(self, part: Slice) -> str:
        return seal(self._ports.page_secret, self._scope, _encode(replace(self._token, part=part)).decode())


def _planning_for(
    ports: Ports,
    caller: Caller,
    table: Document,
    source: TableFiles,
    token: PlanToken,
    error: type[PlanNotFound | PlanTaskNotFound],
) -> _Planning:
    """The planning that a token describes. If the table no longer has the snapshot or schema, the plan is not found."""
    if token.asked is None:
        _raise_not_found(error)
    try:
        scan = Scan(table, token.asked, schema_id=token.schema)
    except InvalidInput:
        _raise_not_found(error)
    return _Planning(ports, caller, source, scan, token)


# --- in the background ----------------------------------------------------------------------------------

_RUNNING: Final = CacheKind[str, "asyncio.Task[bytes]"](
    "iceberg plans at work", limit=64, on_evict=lambda task: task.cancel()
)
"""If there are too many, the oldest is cancelled. The next fetch of it starts the planning again."""
_CANCELLED_PLANS: Final = CacheKind[str, str]("cancelled iceberg plans", limit=10_000)


def _start(ports: Ports, planning: _Planning) -> asyncio.Task[bytes]:
    """Start planning in the background."""
    task = ports.local.start(planning.first_answer(b""))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
