"""Changes of rows by Delta's own statements on a shadow. An extension of this server."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import EXAMPLE_ID, EXAMPLE_TABLE, table_at
from moorage.api.delta.load import MISSING
from moorage.api.errands import errand_of
from moorage.core.errors import InvalidInput, KeyReused, TooLarge
from moorage.core.rewrites import OfferOutcome
from moorage.formats.delta.actions import SetTransaction
from moorage.http import Answer, Call, Example, Int64, NoQuery
from moorage.usecases.delta import row_changes
from moorage.usecases.delta.row_changes import ChangeOffer
from moorage.usecases.ports import Ports

routes = delta.section(tags=("delta tables",))

_FOLDER = "change-3f9a0c2be4175a6f7cc19d3e8f5a2b7c/"
AppId = Annotated[str, Meta(min_length=1, max_length=255)]


class DeltaShadowRequest(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Which files of the table the shadow names."""

    with_files: Annotated[bool | None, Meta(description="False for an append, which does not read the table.")] = True
    app_id: Annotated[AppId | None, Meta(description="Return the last transaction of this application.")] = None


class DeltaShadow(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A plain Delta table in the folder of the real one, with the same files, columns, rules and properties."""

    table_id: str
    folder: Annotated[str, Meta(description="Relative to the location of the table.")]
    location: Annotated[str, Meta(description="Absolute, as Hadoop prints it.")]
    base_version: Int64
    files: Int64
    last_transaction: Int64 | None


class DeltaTransaction(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A write of an application. The table accepts each version once."""

    app_id: AppId
    version: Int64


class DeltaOffer(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A shadow that was changed by one statement."""

    folder: Annotated[str, Meta(min_length=1, max_length=255)]
    base_version: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    transaction: DeltaTransaction | None = None
    discard: Annotated[bool | None, Meta(description="Commit nothing, and delete the folder.")] = False


class DeltaOfferResult(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What became of an offer."""

    outcome: OfferOutcome
    version: Annotated[Int64 | None, Meta(description="The version of the table that contains the change.")]
    reason: Annotated[str | None, Meta(description="Why it was not committed.")]


@routes.post(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}/shadows",
    operation="createDeltaShadow",
    summary="Prepare a change of rows.",
    stage="private_preview",
    body=DeltaShadowRequest,
    answer=DeltaShadow,
    keyed=False,
    errors=(InvalidInput, TooLarge, *MISSING),
    example=Example(
        path=EXAMPLE_TABLE,
        body={"with-files": True},
        answer={
            "table-id": EXAMPLE_ID,
            "folder": _FOLDER,
            "location": f"file:/data/managed/{EXAMPLE_ID}/{_FOLDER.removesuffix('/')}",
            "base-version": 7,
            "files": 12,
            "last-transaction": None,
        },
    ),
)
async def create_delta_shadow(call: Call[DeltaShadowRequest, NoQuery], ports: Ports) -> Answer:
    """Write a plain Delta table that names the files of a managed table into its folder.

    Run one MERGE, UPDATE, DELETE or INSERT on it, then offer its folder.
    """
    body = call.body
    found = await row_changes.create_shadow(
        ports, call.caller, table_at(call.params), with_files=body.with_files is not False, app_id=body.app_id
    )
    return Answer.json(DeltaShadow(**asdict(found)))


@routes.post(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}/offers",
    operation="offerDeltaChange",
    summary="Commit a change of rows.",
    stage="private_preview",
    body=DeltaOffer,
    answer=DeltaOfferResult,
    errors=(InvalidInput, KeyReused, *MISSING),
    example=Example(
        path=EXAMPLE_TABLE,
        body={"folder": _FOLDER, "base-version": 7},
        answer={"outcome": "committed", "version": 8, "reason": None},
    ),
)
async def offer_delta_change(call: Call[DeltaOffer, NoQuery], ports: Ports) -> Answer:
    """Commit what one statement did to a shadow, as the next version of the table.

    Appended rows are added to the newest version. If rows of the table were changed since `base-version` and the
    statement read the table, nothing is committed and the outcome is `dropped`: make the change again on a new shadow.
    """
    body = call.body
    txn = body.transaction
    offer = ChangeOffer(
        folder=body.folder,
        base_version=body.base_version,
        transaction=None if txn is None else SetTransaction(app_id=txn.app_id, version=txn.version),
        discard=bool(body.discard),
    )
    result = await row_changes.offer_change(ports, errand_of(call, ports), table_at(call.params), offer)
    return Answer.json(DeltaOfferResult(outcome=result.outcome, version=result.version, reason=result.reason))
