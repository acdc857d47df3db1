"""An update of a Delta table through `/delta/v1`: a commit, a published version, or a description of the table."""

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
from moorage.usecases.delta.history import RatifiedCommit, all_unannounced_commits
from moorage.usecases.delta.lookup import is_delta, is_managed
from moorage.usecases.parts import Part
from moorage.usecases.ports import Errand, Ports
from moorage.usecases.settling.settle import settle_one


class TableUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The changes of one request, and its requirements."""

    uuid: str
    etag: str | None = None
    proposal: Proposal | None = None
    published: int | None = None
    uniform: IcebergBlock | None = None
    has_uniform: bool = False
    description: Description = Description()


class LoadedTable(msgspec.Struct, frozen=True):
    """A table, and all its commits that may not be published yet, the oldest first."""

    table: Securable
    commits: tuple[RatifiedCommit, ...] = ()


async def load_table(ports: Ports, caller: Caller, address: Address) -> LoadedTable:
    """The table, and the commits that a reader may not find in the folder."""
    return await _with_commits(ports, await load_delta_table(ports, caller, address))


async def _with_commits(ports: Ports, table: Securable) -> LoadedTable:
    return LoadedTable(table, await all_unannounced_commits(ports, table) if is_managed(table) else ())


async def load_delta_table(ports: Ports, caller: Caller, address: Address) -> Securable:
    """The Delta table with a name. For another format the error names it, and clients use another API."""
    return require_delta((await reach_relation(ports, caller, address, Privilege.READ))[-1])


def require_delta(table: Securable) -> Securable:
    if not is_delta(table):
        found = table.doc.table.format if table.doc.table is not None else str(table.kind)
        raise InvalidInput(f"'{table.name}' is not a Delta table; its format is {found}", format=found)
    return table


async def update_table(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> LoadedTable:
    """Carry out one update and return the table."""
    return await _with_commits(ports, await _apply_update(ports, errand, address, update))


async def _apply_update(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> Securable:
    chain = await get_relation(ports, errand.caller, address)
    table = require_delta(chain[-1])
    if update.uuid.lower() != table.id:
        raise RevisionMoved(
            f"'{address}' has the id '{table.id}', not '{update.uuid}'; load the table again", field="uuid"
        )
    if not is_managed(table):
        return await _update_description(ports, errand, address, update)
    if update.description.last_version is not None:
        raise InvalidInput(
            "update-metadata-snapshot-version is for external tables only; the catalog ratifies this table's versions",
            field="updates",
        )
    if update.proposal is None and update.published is None:
        return await _update_comment(ports, errand, address, update)
    request = CommitRequest(
        table_id=table.id,
        etag=update.etag,
        proposal=update.proposal,
        published=update.published,
        stated=None if update.description == Description() else to_stated_metadata(update.description),
        uniform=update.uniform,
        has_uniform=update.has_uniform,
    )
    if update.proposal is None:
        require_etag(table, update.etag)
    return await commit(ports, errand, request)


async def _update_description(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> Securable:
    if update.proposal is not None or update.published is not None:
        raise InvalidInput(
            f"'{address}' is an external table; the catalog does not ratify its commits", field="updates"
        )

    async def prepare(caller: Caller) -> Part:
        chain = await get_relation(ports, caller, address)
        return await prepare_description(ports, caller, chain, update.description, etag=update.etag)

    return await settle_one(ports, errand, prepare)


async def _update_comment(ports: Ports, errand: Errand, address: Address, update: TableUpdate) -> Securable:
    """Change the comment of a managed table. Everything else about it changes only with a commit."""
    comment = update.description.comment
    if comment is None or update.description != Description(comment=comment):
        raise InvalidInput(
            f"columns, properties, protocol and domains of '{address}' change only with a commit; send add-commit too",
            field="updates",
        )

    async def prepare(caller: Caller) -> Part:
        chain = await get_relation(ports, caller, address)
        require_etag(chain[-1], update.etag)
        return await revise_found(ports, caller, chain, Revision(comment=comment))

    return await settle_one(ports, errand, prepare)


def to_stated_metadata(description: Description) -> StatedMetadata:
    """A description of a managed table, as stated metadata: the staged file is the truth, and must agree."""
    return StatedMetadata(
        description=description.comment,
        schema=description.schema,
        partition_columns=description.partition_columns,
        protocol=description.protocol,
        set_properties=description.set_properties,
        removed_properties=description.removed_properties,
        clustering_columns=description.clustering_columns,
        row_id_mark=description.row_id_mark,
        removed_domains=description.removed_domains,
    )
