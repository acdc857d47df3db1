"""Updating a table: a list of actions, carried out together if the table meets the requirements."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from moorage.api.delta.api import delta
from moorage.api.delta.bodies import (
    EXAMPLE_COMMIT,
    EXAMPLE_ID,
    EXAMPLE_LOADED,
    EXAMPLE_TABLE,
    Columns,
    DeltaCommit,
    DeltaDomainMetadata,
    DeltaLoadTableResponse,
    DeltaProtocol,
    DeltaUniformMetadata,
    table_at,
)
from moorage.api.delta.load import MISSING, table_answer
from moorage.api.errands import errand_of
from moorage.core.errors import InvalidInput, RevisionMoved, VersionTaken
from moorage.formats.delta import clustering, row_ids
from moorage.formats.delta.commit_check import Proposal
from moorage.formats.delta.schema import parse_wire_schema
from moorage.http import Answer, Call, Example, Int64, NoQuery
from moorage.usecases.delta.external import Description
from moorage.usecases.delta.updates import TableUpdate, update_table
from moorage.usecases.ports import Ports


class Requirement(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """A condition. If it does not hold, the server changes nothing."""


class AssertTableUUID(Requirement, frozen=True, kw_only=True, tag="assert-table-uuid"):
    """The name still belongs to the table with this id."""

    uuid: str


class AssertEtag(Requirement, frozen=True, kw_only=True, tag="assert-etag"):
    """The table's description has not changed since the client read it."""

    etag: str


class Action(msgspec.Struct, frozen=True, kw_only=True, tag_field="action"):
    """One change of an update."""


class SetProperties(Action, frozen=True, kw_only=True, tag="set-properties"):
    """Set these properties and keep the others."""

    updates: dict[str, str] | None = None


class RemoveProperties(Action, frozen=True, kw_only=True, tag="remove-properties"):
    """Remove these properties."""

    removals: list[str] | None = None


class SetColumns(Action, frozen=True, kw_only=True, tag="set-columns"):
    """Replace the columns."""

    columns: Columns


class SetTableComment(Action, frozen=True, kw_only=True, tag="set-table-comment"):
    """Replace the comment."""

    comment: str


class AddCommit(Action, frozen=True, kw_only=True, tag="add-commit"):
    """Ratify this staged commit as the next version."""

    commit: DeltaCommit
    uniform: DeltaUniformMetadata | None = None


class SetLatestBackfilledVersion(
    Action, frozen=True, kw_only=True, tag="set-latest-backfilled-version", rename="kebab"
):
    """Report that the client published all versions up to this one."""

    latest_published_version: Int64


class SetProtocol(Action, frozen=True, kw_only=True, tag="set-protocol"):
    """Replace the protocol."""

    protocol: DeltaProtocol


class SetDomainMetadata(Action, frozen=True, kw_only=True, tag="set-domain-metadata"):
    """Set these domains and keep the others."""

    updates: DeltaDomainMetadata


class RemoveDomainMetadata(Action, frozen=True, kw_only=True, tag="remove-domain-metadata"):
    """Remove these domains."""

    domains: list[str] | None = None


class SetPartitionColumns(Action, frozen=True, kw_only=True, tag="set-partition-columns", rename="kebab"):
    """Replace the partition columns."""

    partition_columns: list[str]


class UpdateMetadataSnapshotVersion(
    Action, frozen=True, kw_only=True, tag="update-metadata-snapshot-version", rename="kebab"
):
    """Report the last version of an external table that changed more than rows."""

    last_commit_version: Annotated[int, Meta(ge=0, le=2**63 - 1)]
    last_commit_timestamp_ms: Annotated[int, Meta(ge=0, le=2**63 - 1)]


AnyRequirement = AssertTableUUID | AssertEtag
AnyAction = (
    SetProperties
    | RemoveProperties
    | SetColumns
    | SetTableComment
    | AddCommit
    | SetLatestBackfilledVersion
    | SetProtocol
    | SetDomainMetadata
    | RemoveDomainMetadata
    | SetPartitionColumns
    | UpdateMetadataSnapshotVersion
)
One = TypeVar("One", AssertTableUUID, AssertEtag)
A = TypeVar("A", bound=Action)


class DeltaUpdateTableRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements and actions, at most one of each type."""

    requirements: list[AnyRequirement] | None = None
    updates: list[AnyAction] | None = None

    def to_update(self) -> TableUpdate:
        if not self.updates:
            raise InvalidInput("updates is empty; send at least one action", field="updates")
        asserted = _by_type(self.requirements or [], "requirements")
        actions = _by_type(self.updates, "updates")
        uuid, etag = asserted.get(AssertTableUUID), asserted.get(AssertEtag)
        if not isinstance(uuid, AssertTableUUID):
            raise InvalidInput("requirements must contain assert-table-uuid", field="requirements")
        commit = _action_of(actions, AddCommit)
        published = _action_of(actions, SetLatestBackfilledVersion)
        uniform = commit.uniform if commit is not None else None
        return TableUpdate(
            uuid=uuid.uuid,
            etag=etag.etag if isinstance(etag, AssertEtag) else None,
            proposal=None if commit is None else _proposal(commit.commit),
            published=None if published is None else published.latest_published_version,
            uniform=None if uniform is None else uniform.to_block(),
            has_uniform=uniform is not None,
            description=_description(actions),
        )


def _by_type(parts: list[AnyRequirement] | list[AnyAction], field: str) -> dict[type, msgspec.Struct]:
    found: dict[type, msgspec.Struct] = {}
    for index, part in enumerate(parts):
        if type(part) in found:
            tag = part.__struct_config__.tag
            raise InvalidInput(f"{field}[{index}]: {tag} is given more than once", field=f"{field}[{index}]")
        found[type(part)] = part
    return found


def _action_of(actions: dict[type, msgspec.Struct], kind: type[A]) -> A | None:
    found = actions.get(kind)
    return found if isinstance(found, kind) else None


def _proposal(commit: DeltaCommit) -> Proposal:
    return Proposal(
        version=commit.version,
        timestamp_ms=commit.timestamp,
        file_name=commit.file_name,
        file_size=commit.file_size,
        file_modified_ms=commit.file_modification_timestamp,
    )


def _description(actions: dict[type, msgspec.Struct]) -> Description:
    """The description of the table in the actions, regardless of their order."""
    columns, comment = _action_of(actions, SetColumns), _action_of(actions, SetTableComment)
    partitions, protocol = _action_of(actions, SetPartitionColumns), _action_of(actions, SetProtocol)
    snapshot = _action_of(actions, UpdateMetadataSnapshotVersion)
    updated, removed = _properties(actions)
    domains, removed_domains = _domains(actions)
    return Description(
        comment=None if comment is None else comment.comment,
        schema=None if columns is None else parse_wire_schema(columns.columns),
        partition_columns=None if partitions is None else tuple(partitions.partition_columns),
        protocol=None if protocol is None else protocol.protocol.to_protocol(),
        set_properties=updated,
        removed_properties=removed,
        clustering_columns=None if domains.clustering is None else domains.clustering.paths,
        row_id_mark=None if domains.row_tracking is None else domains.row_tracking.row_id_high_water_mark,
        removed_domains=removed_domains,
        last_version=None if snapshot is None else snapshot.last_commit_version,
        last_timestamp_ms=None if snapshot is None else snapshot.last_commit_timestamp_ms,
    )


def _properties(actions: dict[type, msgspec.Struct]) -> tuple[dict[str, str], tuple[str, ...]]:
    set_action, remove_action = _action_of(actions, SetProperties), _action_of(actions, RemoveProperties)
    updated = (set_action.updates if set_action else None) or {}
    removed = tuple((remove_action.removals if remove_action else None) or ())
    both = sorted(set(updated) & set(removed))
    if both:
        raise InvalidInput(f"the property {both[0]!r} is both set and removed", field="updates")
    return updated, removed


def _domains(actions: dict[type, msgspec.Struct]) -> tuple[DeltaDomainMetadata, tuple[str, ...]]:
    updated, removed = _action_of(actions, SetDomainMetadata), _action_of(actions, RemoveDomainMetadata)
    domains = updated.updates if updated else DeltaDomainMetadata()
    if updated is not None and domains == DeltaDomainMetadata():
        raise InvalidInput("set-domain-metadata sets no supported domain", field="updates")
    present = {clustering.DOMAIN: domains.clustering, row_ids.DOMAIN: domains.row_tracking}
    removed_domains = tuple((removed.domains if removed else None) or ())
    for domain in removed_domains:
        if domain not in present:
            raise InvalidInput(f"remove-domain-metadata: the domain {domain!r} is not supported", field="updates")
        if present[domain] is not None:
            raise InvalidInput(f"the domain {domain!r} is both set and removed", field="updates")
    return domains, removed_domains


@delta.post(
    "/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    operation="updateDeltaTable",
    summary="Commit to a table, or change its description.",
    tags=("delta tables",),
    body=DeltaUpdateTableRequest,
    answer=DeltaLoadTableResponse,
    errors=(InvalidInput, RevisionMoved, VersionTaken, *MISSING),
    example=Example(
        path=EXAMPLE_TABLE,
        body={
            "requirements": [{"type": "assert-table-uuid", "uuid": EXAMPLE_ID}],
            "updates": [
                {"action": "add-commit", "commit": EXAMPLE_COMMIT},
                {"action": "set-latest-backfilled-version", "latest-published-version": 0},
            ],
        },
        answer=EXAMPLE_LOADED,
    ),
)
async def post_update(call: Call[DeltaUpdateTableRequest, NoQuery], ports: Ports) -> Answer:
    """Carry out all actions or none. A retry of a ratified commit succeeds without effect, whatever it contains."""
    errand, address = errand_of(call, ports), table_at(call.params)
    return await table_answer(ports, await update_table(ports, errand, address, call.body.to_update()))
