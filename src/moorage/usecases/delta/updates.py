"""One update of a Delta table, as its newest clients send it: a commit, a claim, or words about the table."""

from __future__ import annotations

import msgspec

from moorage.core.callers import Caller
from moorage.core.errors import InvalidInput, RevisionMoved
from moorage.core.privileges import Privilege
from moorage.core.revisions import Revision
from moorage.core.securables import Securable
from moorage.formats.delta.commit_check import Proposal
from moorage.formats.delta.stated_metadata import StatedMetadata
from moorage.formats.delta.uniform import IcebergBlock
from moorage.usecases.catalog.addresses import Address
from moorage.usecases.catalog.relations import get_relation, reach_relation
from moorage.usecases.catalog.revisions import revise_found
from moorage.usecases.delta.commits import CommitRequest, commit, require_etag
from moorage.usecases.delta.external import Description, prepare_description
from moorage.usecases.delta.history import Ratified, all_unannounced
from moorage.usecases.delta.lookup import is_delta, is_managed
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one


class TableUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one request says, and what it relies on."""

    uuid: str
    etag: str | None = None
    proposal: Proposal | None = None
    published: int | None = None
    uniform: IcebergBlock | None = None
    has_uniform: bool = False
    said: Description = Description()


class Loaded(msgspec.Struct, frozen=True):
    """A table, and all its commits that may not be published yet, the oldest first."""

    table: Securable
    commits: tuple[Ratified, ...] = ()


async def load_table(ports: Ports, caller: Caller, address: Address) -> Loaded:
    """All that a reader needs to know before it lists the folder."""
    return await _loaded(ports, await load_delta(ports, caller, address))


async def _loaded(ports: Ports, table: Securable) -> Loaded:
    return Loaded(table, await all_unannounced(ports, table) if is_managed(table) else ())


async def load_delta(ports: Ports, caller: Caller, address: Address) -> Securable:
    """The Delta table of a name; of other formats the refusal says so, and clients know another way then."""
    return require_delta((await reach_relation(ports, caller, address, Privilege.READ))[-1])


def require_delta(table: Securable) -> Securable:
    if not is_delta(table):
        found = table.doc.table.format if table.doc.table is not None else str(table.kind)
        raise InvalidInput(f"'{table.name}' is no Delta table but {found}", format=found)
    return table


async def update_table(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> Loaded:
    """Carry out one update; the table afterwards."""
    return await _loaded(ports, await _update(ports, errand, address, update))


async def _update(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> Securable:
    chain = await get_relation(ports, errand.caller, address)
    table = require_delta(chain[-1])
    if update.uuid.lower() != table.id:
        raise RevisionMoved(f"'{address}' has the id '{table.id}', not '{update.uuid}'; load it again", field="uuid")
    if not is_managed(table):
        return await _describe(ports, errand, address, update)
    if update.said.last_version is not None:
        raise InvalidInput(
            "update-metadata-snapshot-version is for external tables; the catalog knows the versions of this one",
            field="updates",
        )
    if update.proposal is None and update.published is None:
        return await _comment(ports, errand, address, update)
    request = CommitRequest(
        table_id=table.id,
        etag=update.etag,
        proposal=update.proposal,
        published=update.published,
        stated=None if update.said == Description() else to_stated(update.said),
        uniform=update.uniform,
        has_uniform=update.has_uniform,
    )
    if update.proposal is None:
        require_etag(table, update.etag)
    return await commit(ports, errand, request)


async def _describe(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> Securable:
    if update.proposal is not None or update.published is not None:
        raise InvalidInput(f"'{address}' is an external table; its commits are not ours", field="updates")

    async def prepare(caller: Caller) -> Part:
        chain = await get_relation(ports, caller, address)
        return await prepare_description(ports, caller, chain, update.said, etag=update.etag)

    return await settle_one(ports, errand, prepare)


async def _comment(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> Securable:
    """Of a managed table all but the comment is part of its history."""
    comment = update.said.comment
    if comment is None or update.said != Description(comment=comment):
        raise InvalidInput(
            f"columns, properties, protocol and domains of '{address}' change with a commit; add-commit is missing",
            field="updates",
        )

    async def prepare(caller: Caller) -> Part:
        chain = await get_relation(ports, caller, address)
        require_etag(chain[-1], update.etag)
        return await revise_found(ports, caller, chain, Revision(comment=comment))

    return await settle_one(ports, errand, prepare)


def to_stated(said: Description) -> StatedMetadata:
    """The same words about a managed table are a claim: its log is the truth."""
    return StatedMetadata(
        description=said.comment,
        schema=said.schema,
        partition_columns=said.partition_columns,
        protocol=said.protocol,
        set_properties=said.set_properties,
        removed_properties=said.removed_properties,
        clustering_columns=said.clustering_columns,
        row_id_mark=said.row_id_mark,
        removed_domains=said.removed_domains,
    )
