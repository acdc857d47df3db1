"""Add objects to a share, change how they are shared, and remove them: what the plan needs to know, and the plan."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from moorage.access.port import require
from moorage.core.callers import Caller
from moorage.core.entries import MAX_CHANGES, Change
from moorage.core.errors import DraftTooLarge, Unsupported
from moorage.core.names import name_key
from moorage.core.privileges import Privilege
from moorage.core.securables import Kind, Securable, Shelf
from moorage.core.shares import WHOLE_SCHEMA, details_of, first_key_of, last_key_of, schema_of
from moorage.ledger.port import Step
from moorage.usecases.catalog.addresses import Chain, find_by_id, find_chain, reach
from moorage.usecases.ports import Ports
from moorage.usecases.sharing.granted import is_shareable
from moorage.usecases.sharing.share_plan import ObjectUpdate, SharePlan

_BATCH: Final = 1_000


async def prepare_updates(
    ports: Ports, caller: Caller, share: Securable, updates: Sequence[ObjectUpdate]
) -> tuple[Change, ...]:
    """The changes of a share's objects, in the order of the updates."""
    if len(updates) >= MAX_CHANGES:
        raise DraftTooLarge(
            f"a request has at most {MAX_CHANGES - 1} updates, this one has {len(updates)}: split it", field="updates"
        )
    targets = await asyncio.gather(*(_target(ports, caller, each) for each in updates))
    existing = await _existing(ports, share, updates, targets)
    targets = [await _meant(ports, existing, *pair) for pair in zip(updates, targets, strict=True)]
    plan = SharePlan(share, existing)
    for update, target in zip(updates, targets, strict=True):
        more = plan.widened_by(update, target)
        if more is not None:
            # Else a manager of the share could lift the filter of a table that was shared by its readers.
            _require_readable(ports, caller, (await ports.ledger.lineage(more.target)).chain)
        plan.apply(update, target, caller.id)
    return tuple(plan.changes)


async def _target(ports: Ports, caller: Caller, update: ObjectUpdate) -> Chain:
    """The table or schema of an update. To add it, the caller must be able to read it: all tables of a schema."""
    address = update.address
    if update.action != "ADD":  # it may have been dropped, and its id is only compared with those in the share
        chain = (await find_chain(ports.ledger, address)).chain
        return chain if len(chain) == len(address.path) and chain[-1].kind is address.kind else ()
    chain = await reach(ports, caller, address, Privilege.READ, kinds=(Kind.VIEW,) if update.type == "TABLE" else ())
    target = chain[-1]
    _require_readable(ports, caller, chain)
    if target.kind is Kind.VIEW:
        raise Unsupported(
            f"'{update.name}' is a view, which cannot be shared, because this server does not compute rows. Share its "
            "tables, or a materialized view of a pipeline, which is a table"
        )
    if target.kind is Kind.TABLE and not is_shareable(ports, target):
        found = target.doc.table.format if target.doc.table else "unknown"
        raise Unsupported(
            f"table '{update.name}' has the format {found}, which cannot be shared; share a Delta or an Iceberg table"
        )
    return chain


def _require_readable(ports: Ports, caller: Caller, chain: Chain) -> None:
    """Refuse a caller that may not read a table, or all tables of a schema. An undrop makes a dropped one readable."""
    if chain:
        needed = Privilege.READ_TABLES if chain[-1].kind is Kind.NAMESPACE else Privilege.READ
        require(ports.access, caller, needed, chain)


async def _meant(ports: Ports, existing: Sequence[Securable], update: ObjectUpdate, target: Chain) -> Chain:
    """The target, or nothing if the share has a dropped object of this name instead of the present one."""
    if update.action == "ADD" or not target:
        return target
    details = [details_of(each) for each in existing]
    if any(each.target == target[-1].id for each in details):
        return target
    former = [each for each in details if each.type == update.type and name_key(each.name) == name_key(update.name)]
    is_dropped = [not await find_by_id(ports.ledger, each.target) for each in former]
    return () if any(is_dropped) else target


async def _existing(
    ports: Ports, share: Securable, updates: Sequence[ObjectUpdate], targets: Sequence[Chain]
) -> list[Securable]:
    """The objects that the updates may concern: those with their names, or all if an object has another name."""
    aliases = {update.alias for update in updates}
    schemas = {name_key(schema_of(alias)) for alias in aliases}
    keys = {name_key(alias) for alias in aliases} | {f"{schema}.{WHOLE_SCHEMA}" for schema in schemas}
    top = Step(Shelf.SHARE, name_key(share.name))
    walks = await asyncio.gather(*(ports.ledger.walk((top, Step(Shelf.SHARED_OBJECT, key))) for key in keys))
    found = {walk.chain[-1].id: walk.chain[-1] for walk in walks if len(walk.chain) == 2}
    for update in updates:
        if update.type == "SCHEMA":
            # At most one object is removed by each update. If there are more, one stays and is in the way.
            first = first_key_of(schema_of(update.alias))
            listed = await ports.ledger.children(share.id, Shelf.SHARED_OBJECT, after=first, limit=len(updates) + 1)
            end = last_key_of(schema_of(update.alias))
            found.update({item.id: item for item in listed.items if name_key(item.name) < end})
    plan = SharePlan(share, found.values())
    changed = ((each, target) for each, target in zip(updates, targets, strict=True) if each.action != "ADD")
    if all(plan.find(each, target) is not None for each, target in changed):
        return list(found.values())
    return await _all_objects(ports, share)


async def _all_objects(ports: Ports, share: Securable) -> list[Securable]:
    found: list[Securable] = []
    while True:
        after = name_key(found[-1].name) if found else ""
        items = (await ports.ledger.children(share.id, Shelf.SHARED_OBJECT, after=after, limit=_BATCH)).items
        found += items
        if len(items) < _BATCH:
            return found
