"""What a worker asks for while it compacts a table or deletes its old files."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from moorage.api.console.api import console
from moorage.api.console.bodies import EXAMPLE_TABLE
from moorage.api.errands import errand_of
from moorage.api.job_info import EXAMPLE_JOB
from moorage.core.errors import InvalidInput, JobNotFound, KeyReused, LeaseLost, TableNotFound, Unsupported
from moorage.core.rewrites import OfferOutcome, RewriteMode
from moorage.http import NO_STORE, Answer, Call, Example, Int64, NoBody, NoQuery
from moorage.usecases.ports import Ports
from moorage.usecases.upkeep import rewrites

routes = console.section(tags=("upkeep",))

_ID = {"table_id": EXAMPLE_TABLE["id"]}
_FOLDER = "compact-01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d11/3f9a0c2be417/"
_EXPIRED: dict[str, Any] = {"floor": 7, "files": 20, "bytes": 4096, "job": None, "log_files": 0, "held_by": []}
_ERRORS = (InvalidInput, TableNotFound, JobNotFound, LeaseLost, Unsupported)


class ShadowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A small table of files to rewrite. The worker optimises it with Spark and then offers its folder."""

    folder: Annotated[str, Meta(description="Relative to the location of the table.")]
    location: Annotated[str, Meta(description="Absolute, as Hadoop prints it.")]
    base_version: Int64
    mode: RewriteMode
    target_bytes: Int64
    columns: tuple[str, ...]
    full: bool
    files: Int64
    bytes: Int64
    remaining_files: Int64


class WaitInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Why the job must wait. The worker postpones it until then."""

    until_ms: Int64
    reason: str


class NextShadowInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The next step of a compaction. If both are null, nothing is left to do."""

    shadow: ShadowInfo | None
    waiting: WaitInfo | None
    storage: Annotated[dict[str, str], Meta(description="Settings of Hadoop, with a key for the files of the table.")]


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A rewritten shadow."""

    folder: Annotated[str, Meta(min_length=1, max_length=255)]
    base_version: Int64


class ExpiredInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What was announced or deleted."""

    floor: Annotated[Int64, Meta(description="The oldest version that is still available.")]
    files: Annotated[Int64, Meta(description="The number of files that no available version needs.")]
    bytes: Int64
    job: Annotated[str | None, Meta(description="The job that will delete the files.")]
    log_files: Annotated[Int64, Meta(description="The number of deleted files of the log.")] = 0
    held_by: Annotated[tuple[str, ...], Meta(description="Why versions past their retention stay available.")] = ()


class CheckpointInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint of a table."""

    version: Int64
    is_new: Annotated[bool, Meta(description="False if the version had a checkpoint already.")]
    replayed_before: Annotated[Int64, Meta(description="How many commits a reader replayed before.")]
    files: Annotated[Int64, Meta(description="The number of files of the table.")]
    bytes: Annotated[Int64, Meta(description="The size of the checkpoint.")]


class StatisticsStep(msgspec.Struct, frozen=True, kw_only=True):
    """Where to begin."""

    after: Annotated[str, Meta(max_length=4096)] | None = None


class StatisticsInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a statistics job."""

    missing: Annotated[Int64, Meta(description="How many files had no statistics before this step.")]
    files: Annotated[Int64, Meta(description="How many files have statistics now.")]
    unreadable: Annotated[Int64, Meta(description="How many files are missing, or are not Parquet files.")]
    version: Annotated[Int64 | None, Meta(description="The version of the table that contains the statistics.")]
    after: Annotated[str | None, Meta(description="Where the next step begins; null if this was the last one.")]
    waiting: WaitInfo | None


class RewrittenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The files that a rewrite replaced, and those that it added."""

    files_removed: Int64
    bytes_removed: Int64
    files_added: Int64
    bytes_added: Int64


class OfferInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an offer."""

    outcome: OfferOutcome
    version: Annotated[Int64 | None, Meta(description="The version of the table that contains the rewrite.")]
    reason: Annotated[str | None, Meta(description="Why it was not committed, or why partitions were left out.")]
    rewritten: Annotated[
        RewrittenInfo | None, Meta(description="Null if nothing was committed, or the request is a retry.")
    ] = None


@routes.post(
    "/tables/{table_id}/shadows",
    operation="createShadow",
    summary="Prepare the next part of a compaction.",
    stage="public_preview",
    answer=NextShadowInfo,
    keyed=False,
    errors=_ERRORS,
    example=Example(
        path=_ID,
        answer={
            "shadow": {
                "folder": _FOLDER,
                "location": f"file:/data/managed/01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4e07/{_FOLDER}",
                "base_version": 7,
                "mode": "bin_pack",
                "target_bytes": 134217728,
                "columns": [],
                "full": False,
                "files": 5000,
                "bytes": 81920000,
                "remaining_files": 0,
            },
            "waiting": None,
            "storage": {},
        },
    ),
)
async def create_shadow(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Write a small table with the next files to rewrite into the folder of the table.

    The header `Moorage-Job` states the job and its fence.
    """
    found = await rewrites.next_shadow(ports, errand_of(call, ports), call.params["table_id"])
    shadow = None if found.shadow is None else ShadowInfo(**asdict(found.shadow))
    waiting = None if found.waiting is None else WaitInfo(**asdict(found.waiting))
    info = NextShadowInfo(shadow=shadow, waiting=waiting, storage=found.storage)
    return Answer.json(info, headers=(NO_STORE,) if found.storage else ())


@routes.post(
    "/tables/{table_id}/offers",
    operation="offerRewrite",
    summary="Commit a rewritten shadow.",
    stage="public_preview",
    body=Offer,
    answer=OfferInfo,
    errors=(*_ERRORS, KeyReused),
    example=Example(
        path=_ID,
        body={"folder": _FOLDER, "base_version": 7},
        answer={
            "outcome": "committed",
            "version": 9,
            "reason": None,
            "rewritten": {"files_removed": 120, "bytes_removed": 73400320, "files_added": 1, "bytes_added": 70254592},
        },
    ),
)
async def offer_rewrite(call: Call[Offer, NoQuery], ports: Ports) -> Answer:
    """Commit the files that the worker wrote, on top of the newest version of the table.

    Files that were appended meanwhile stay. If a file of the shadow was removed or changed meanwhile, its partition is
    left out. If no partition is left, nothing is committed, and the outcome is `dropped`. The header `Moorage-Job`
    states the job and its fence.
    """
    body = call.body
    errand = errand_of(call, ports)
    result = await rewrites.offer(ports, errand, call.params["table_id"], body.folder, body.base_version)
    rewritten = None if result.rewritten is None else RewrittenInfo(**asdict(result.rewritten))
    return Answer.json(
        OfferInfo(outcome=result.outcome, version=result.version, reason=result.reason, rewritten=rewritten)
    )


@routes.post(
    "/tables/{table_id}/expiry",
    operation="announceExpiry",
    summary="Make old versions unavailable.",
    stage="public_preview",
    answer=ExpiredInfo,
    patient=True,
    errors=(*_ERRORS, KeyReused),
    example=Example(
        path=_ID,
        answer={"floor": 7, "files": 20, "bytes": 4096, "job": EXAMPLE_JOB["id"], "log_files": 0, "held_by": []},
    ),
)
async def announce_expiry(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Make the versions past the retention of the table unavailable, and enqueue the deletion of their files.

    Nothing is deleted yet: the response states what will be. The header `Moorage-Job` states an `expire` job.
    """
    result = await rewrites.announce_expiry(ports, errand_of(call, ports), call.params["table_id"])
    return Answer.json(ExpiredInfo(**asdict(result)))


@routes.post(
    "/tables/{table_id}/deletion",
    operation="deleteExpired",
    summary="Delete the files of unavailable versions.",
    stage="public_preview",
    answer=ExpiredInfo,
    keyed=False,
    patient=True,
    errors=_ERRORS,
    example=Example(
        path=_ID, answer={"floor": 7, "files": 20, "bytes": 4096, "job": None, "log_files": 12, "held_by": []}
    ),
)
async def delete_expired(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Delete the files that no available version needs. The header `Moorage-Job` states a `vacuum` job."""
    result = await rewrites.delete_expired(ports, errand_of(call, ports), call.params["table_id"])
    return Answer.json(ExpiredInfo(**asdict(result)))


@routes.post(
    "/tables/{table_id}/checkpoint",
    operation="createCheckpoint",
    summary="Write a checkpoint of a Delta table.",
    stage="public_preview",
    answer=CheckpointInfo,
    keyed=False,
    patient=True,
    errors=_ERRORS,
    example=Example(
        path=_ID,
        answer={"version": 120, "is_new": True, "replayed_before": 121, "files": 4000, "bytes": 524288},
    ),
)
async def create_checkpoint(call: Call[NoBody, NoQuery], ports: Ports) -> Answer:
    """Write a checkpoint of the newest version, or a log compaction if the options of the job say so.

    The header `Moorage-Job` states a `checkpoint` job.
    """
    result = await rewrites.write_checkpoint(ports, errand_of(call, ports), call.params["table_id"])
    return Answer.json(CheckpointInfo(**asdict(result)))


@routes.post(
    "/tables/{table_id}/statistics",
    operation="addStatistics",
    summary="Compute the statistics of files of a Delta table that have none.",
    stage="public_preview",
    body=StatisticsStep,
    answer=StatisticsInfo,
    keyed=False,
    errors=_ERRORS,
    example=Example(
        path=_ID,
        body={"after": None},
        answer={"missing": 40, "files": 39, "unreadable": 1, "version": 9, "after": None, "waiting": None},
    ),
)
async def add_statistics(call: Call[StatisticsStep, NoQuery], ports: Ports) -> Answer:
    """Read the footers of the next files without statistics, and commit what they state.

    The files are added again with `dataChange` false. The header `Moorage-Job` states a `statistics` job.
    """
    result = await rewrites.add_statistics(ports, errand_of(call, ports), call.params["table_id"], call.body.after)
    waiting = None if result.waiting is None else WaitInfo(**asdict(result.waiting))
    return Answer.json(StatisticsInfo(**{**asdict(result), "waiting": waiting}))
