"""Changes of rows by a client: hand out a shadow of the whole table, and commit what Spark made of it.

Delta's own MERGE, UPDATE, DELETE and INSERT run on the shadow. The client then offers its folder, and the server
translates the commit in it. A blind append is committed on top of whatever came meanwhile. A change that depends on the
rows of the table is committed only if no other writer has changed rows; otherwise the client makes it again.
"""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, TooLarge
from moorage.core.privileges import Privilege
from moorage.core.rewrites import CHANGE_PREFIX, ChangeShadow, OfferOutcome, OfferResult
from moorage.core.securables import MAIN, Securable
from moorage.core.versions import VersionKind
from moorage.formats.delta.actions import SetTransaction
from moorage.formats.delta.offer_steps import read_change, translate_row_change
from moorage.formats.delta.offers import Dropped
from moorage.formats.delta.shadow import empty_checksum, hadoop_location
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.write_access import record_write_access
from moorage.usecases.delta.compute import compute
from moorage.usecases.delta.files import table_ref
from moorage.usecases.delta.leftovers import MAX_CHANGE_MS
from moorage.usecases.delta.lookup import LOG, find_managed, require_head, state_of
from moorage.usecases.delta.shadows import (
    OfferedCommit,
    commit_part,
    dropped,
    files_named,
    give_up,
    log_of,
    read_log,
    require_base,
    require_written,
    result_of,
    settle_offer,
    side_of,
    target_of,
    unchanged,
)
from moorage.usecases.delta.updates import load_delta_table
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import find_replay

MAX_FILES: Final = 250_000
"""Of a shadow with all files of a table: its log is one JSON file, which Spark reads whole."""
_FOLDER = re.compile(rf"{CHANGE_PREFIX}[0-9a-f]{{32}}/")
_PAGE: Final = 1000
_EMPTY_APPEND: Final = b'{"commitInfo":{"operation":"WRITE","isBlindAppend":true}}\n'
"""What is offered with a transaction of an application that had no rows to write."""


class ChangeOffer(msgspec.Struct, frozen=True, kw_only=True):
    """A shadow that a client has changed, or that it gives up."""

    folder: str
    base_version: int
    transaction: SetTransaction | None = None
    """Recorded with the change. A table accepts each version of an application once."""
    discard: bool = False


async def create_shadow(
    ports: Ports, caller: Caller, address: Address, *, with_files: bool, app_id: str | None = None
) -> ChangeShadow:
    """Write a shadow of the table, with all its files or, for an append, without any."""
    # Not at the start: it imports Arrow, which a server without Delta tables does not need.
    from moorage.formats.delta.replay import FILES

    table = await _reach(ports, caller, address)
    snapshot = await ports.snapshots.at(await table_ref(ports, table))
    if with_files and snapshot.count > MAX_FILES:
        raise TooLarge(
            f"'{table.name}' has {snapshot.count} files, and rows of a table with more than {MAX_FILES} files cannot "
            "be changed; compact it first"
        )
    location, folder = table.doc.location or "", f"{CHANGE_PREFIX}{uuid4().hex}/"
    chosen = await ports.snapshots.files(snapshot) if with_files else FILES.empty_table()
    log = await log_of(ports, snapshot, chosen, hadoop_location(location))
    # Upkeep waits for this client, as for one that asked for credentials.
    await record_write_access(ports, table.id)
    if not with_files:
        await ports.storage.put_new(location, f"{folder}{LOG}{0:020}.crc", empty_checksum(side_of(snapshot)))
    await ports.storage.put_new(location, f"{folder}{LOG}{0:020}.json", log)
    last = None if app_id is None else snapshot.transactions.get(app_id)
    return ChangeShadow(
        table_id=table.id,
        folder=folder,
        location=hadoop_location(location) + folder.removesuffix("/"),
        base_version=snapshot.version,
        files=chosen.num_rows,
        last_transaction=None if last is None else last.version,
    )


async def offer_change(ports: Ports, errand: Errand, address: Address, offer: ChangeOffer) -> OfferResult:
    """Commit the change in a shadow's folder, or delete the folder of a change that was given up."""
    if not _FOLDER.fullmatch(offer.folder):
        raise InvalidInput(f"folder {offer.folder!r} is not the folder of a shadow", field="folder")
    table = await _reach(ports, errand.caller, address)
    require_base(table, offer.base_version)
    if (first := await find_replay(ports, errand)) is not None:
        return result_of(first)
    location = table.doc.location or ""
    change = await _read_change(ports, location, offer)
    if isinstance(change, OfferResult):
        return await give_up(ports, table, offer.folder, offer.base_version, change)
    await require_written(ports, location, offer.folder, change.facts.new_files)

    async def prepare(caller: Caller) -> Part:
        return await _prepare(ports, caller, table, change, offer)

    return await settle_offer(ports, errand, table, offer.folder, offer.base_version, prepare)


async def _reach(ports: Ports, caller: Caller, address: Address) -> Securable:
    """The managed table, for a caller that may read and write it."""
    table = await load_delta_table(ports, caller, address)
    return await find_managed(ports, caller, table.id, None, Privilege.MODIFY)


async def _read_change(ports: Ports, location: str, offer: ChangeOffer) -> OfferedCommit | OfferResult:
    if offer.discard:
        return OfferResult(outcome=OfferOutcome.UNCHANGED, reason="the shadow was discarded")
    data = await read_log(ports, location, offer.folder, max_age_ms=MAX_CHANGE_MS)
    if isinstance(data, OfferResult):
        if data.outcome is not OfferOutcome.UNCHANGED or offer.transaction is None:
            return data
        data = _EMPTY_APPEND
    facts = await compute(ports, read_change, data, hadoop_location(location))
    if facts.is_empty and offer.transaction is None:
        return OfferResult(outcome=OfferOutcome.UNCHANGED, reason="no row was changed")
    return OfferedCommit(data, facts)


async def _prepare(ports: Ports, caller: Caller, table: Securable, change: OfferedCommit, offer: ChangeOffer) -> Part:
    """Translate the shadow's commit against the head as it is now."""
    table = await find_managed(ports, caller, table.id, None, Privilege.MODIFY)
    state, head = state_of(ports, table), require_head(table)
    snapshot = await ports.snapshots.at(await table_ref(ports, table), head.version)
    stated = (*change.facts.transactions, *([] if offer.transaction is None else [offer.transaction]))
    for txn in stated:
        last = snapshot.transactions.get(txn.app_id)
        if last is not None and last.version >= txn.version:
            return unchanged(f"version {txn.version} of '{txn.app_id}' was committed before")
    if state.last_update_version > offer.base_version:
        return dropped(f"version {state.last_update_version} changed more than rows since the shadow was made")
    if not change.facts.is_blind_append:
        changed = await _first_data_change(ports, table, offer.base_version + 1, head.version)
        if changed is not None:
            return dropped(f"version {changed} changed rows since the shadow was made")
    target = target_of(ports, table, snapshot, offer.folder)
    files = await files_named(snapshot, change.facts.inputs, target.root)
    translated = await compute(
        ports, translate_row_change, change.data, files, target, snapshot.metadata, offer.transaction
    )
    if isinstance(translated, Dropped):
        return dropped(translated.reason)
    return await commit_part(ports, table, translated.data, target)


async def _first_data_change(ports: Ports, table: Securable, first: int, last: int) -> int | None:
    """The first of these versions that did more than rewrite files with the same rows."""
    while first <= last:
        page = await ports.ledger.versions(table.id, MAIN, first=first, last=last, limit=_PAGE)
        found = next((each.version for each in page if each.operation != VersionKind.REWRITE), None)
        if found is not None or not page:
            return found
        first = page[-1].version + 1
    return None
