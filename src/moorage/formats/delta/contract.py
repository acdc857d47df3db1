"""The contract that a catalog-managed table fulfils at its first version and after every later one.

`TableState` is the part of a table's log that the catalog stores: everything that a reader needs before it
reads a file. It is derived from commits alone. A request may repeat this information but cannot add to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.formats.delta import clustering, row_ids
from moorage.formats.delta.actions import CommitFile, Metadata, Protocol
from moorage.formats.delta.columns import require_partition_columns
from moorage.formats.delta.schema import Schema, parse_schema

TABLE_ID: Final = "io.unitycatalog.tableId"
MIN_READER, MIN_WRITER = 3, 7
VECTORS: Final = "deletionVectors"
CHECKPOINT_POLICY: Final = "delta.checkpointPolicy"
"""Required in requests. Delta's Rust kernel sends it there, but does not support it as a table property."""

WRITER_ONLY: Final = frozenset(("inCommitTimestamp", "domainMetadata", "rowTracking", "clustering"))
"""Features that only writers need. All other features named in this module must be in both lists."""


class Terms(msgspec.Struct, frozen=True):
    """The features and fixed properties that one API family requires."""

    features: tuple[str, ...]
    properties: dict[str, str]


SPEC_TERMS: Final = Terms(
    features=("catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"),
    properties={"delta.enableInCommitTimestamps": "true"},
)
DELTA_API_TERMS: Final = Terms(
    features=("catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", VECTORS, "inCommitTimestamp"),
    properties={
        "delta.enableInCommitTimestamps": "true",
        CHECKPOINT_POLICY: "v2",
        "delta.enableDeletionVectors": "true",
        "delta.checkpoint.writeStatsAsJson": "true",
        "delta.checkpoint.writeStatsAsStruct": "true",
    },
)
LATER_TERMS: Final = Terms(DELTA_API_TERMS.features, SPEC_TERMS.properties)
"""After its creation, a table of the Delta API keeps the features of that API, because a feature cannot be removed
without a rewrite of the log. The properties that the specification only recommends may change: Unity accepts that."""

NOT_WITH_ICEBERG_V2: Final = frozenset((VECTORS, "delta.enableDeletionVectors"))
"""Iceberg compatibility V2 forbids deletion vectors, so they are not required of such a table."""

DOMAIN_FEATURES: Final = {clustering.DOMAIN: clustering.FEATURE, row_ids.DOMAIN: row_ids.FEATURE}


class TableState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, dict=True):
    """The state of a table's log at one version, without its files."""

    protocol: Protocol
    metadata: Metadata
    domains: dict[str, str] = {}
    """Domain → configuration, except for row tracking, whose configuration is `row_id_mark`."""
    row_id_mark: int | None = None
    last_update_version: int
    """The last version that changed anything other than rows."""
    last_commit_timestamp: int
    """The timestamp of that version."""

    @cached_property
    def schema(self) -> Schema:
        return parse_schema(self.metadata.schema_string)

    @property
    def configuration(self) -> dict[str, str]:
        return self.metadata.configuration

    def tracks_rows(self) -> bool:
        suspended = self.configuration.get(row_ids.SUSPENDED) == "true"
        return row_ids.FEATURE in self.protocol.writer_features and not suspended

    def to_details(self) -> dict[str, Any]:
        """The state as plain values, for the table's record in the ledger."""
        details: dict[str, Any] = msgspec.to_builtins(self)
        return details

    @classmethod
    def from_details(cls, details: dict[str, Any]) -> TableState:
        return msgspec.convert(details, cls)


class Breach(msgspec.Struct, frozen=True):
    """One term of the contract that a state does not fulfil."""

    message: str
    field: str


def first_state(commit: CommitFile, *, table_id: str, terms: Terms = SPEC_TERMS) -> TableState:
    """The state after 0.json. Raises InvalidInput if a catalog cannot manage such a table."""
    if commit.commit_info is None or commit.commit_info.in_commit_timestamp is None:
        raise InvalidInput("0.json must begin with a commitInfo that has an inCommitTimestamp", field="commitInfo")
    if commit.protocol is None or commit.metadata is None:
        missing = "protocol" if commit.protocol is None else "metaData"
        raise InvalidInput(f"0.json has no {missing}, so it is not the first commit of a Delta table", field=missing)
    initial = TableState(
        protocol=commit.protocol,
        metadata=commit.metadata,
        last_update_version=0,
        last_commit_timestamp=commit.commit_info.in_commit_timestamp,
    )
    state = _with_domains(initial, commit, version=0)
    _require_vector_feature(commit, state.protocol)
    require_contract(state, table_id=table_id, terms=_terms_for(terms, state), before=None)
    return state


def next_state(state: TableState, commit: CommitFile, *, version: int, timestamp_ms: int, table_id: str) -> TableState:
    """The state after a commit. Raises InvalidInput if the commit breaks the table's contract.

    A commit that changes only rows leaves the state as it is, except for the row id high-water mark.
    """
    changed = replace(state, protocol=commit.protocol or state.protocol, metadata=commit.metadata or state.metadata)
    after = _with_domains(changed, commit, version=version)
    _require_vector_feature(commit, after.protocol)
    if changes_only_rows(state, after):
        return after
    terms = SPEC_TERMS if next(breaches(state, table_id, LATER_TERMS), None) else LATER_TERMS
    require_contract(after, table_id=table_id, terms=terms, before=state)
    return replace(after, last_update_version=version, last_commit_timestamp=timestamp_ms)


def _terms_for(terms: Terms, state: TableState) -> Terms:
    """The terms for this table's log. A log that began without a checkpoint policy may continue without one."""
    if CHECKPOINT_POLICY in state.configuration:
        return terms
    return Terms(terms.features, {key: value for key, value in terms.properties.items() if key != CHECKPOINT_POLICY})


def _require_vector_feature(commit: CommitFile, protocol: Protocol) -> None:
    """Require the feature for deletion vectors: a reader that ignores a vector would return deleted rows."""
    if commit.adds_deletion_vectors and not (
        VECTORS in protocol.reader_features and VECTORS in protocol.writer_features
    ):
        raise InvalidInput(f"a file has a deletion vector, but the table lacks the feature {VECTORS!r}", field="add")


def changes_only_rows(before: TableState, after: TableState) -> bool:
    """Whether only rows changed. In this case the table's record and its etag stay the same."""
    return after.protocol == before.protocol and after.metadata == before.metadata and after.domains == before.domains


def _with_domains(state: TableState, commit: CommitFile, *, version: int) -> TableState:
    domains = dict(state.domains)
    for action in commit.domains:
        if action.removed:
            domains.pop(action.domain, None)
        elif action.domain != row_ids.DOMAIN:
            domains[action.domain] = action.configuration
    high_water_mark = row_ids.next_high_water_mark(
        commit, state.row_id_mark, version=version, tracked=state.tracks_rows()
    )
    return replace(state, domains=domains, row_id_mark=high_water_mark)


def require_contract(state: TableState, *, table_id: str, terms: Terms, before: TableState | None) -> None:
    """Raise InvalidInput for the first unfulfilled term. The message states which rule requires it."""
    breach = next(breaches(state, table_id, terms), None)
    if breach is None:
        require_partition_columns(state.schema, state.metadata.partition_columns, field="metaData.partitionColumns")
        if (columns := state.domains.get(clustering.DOMAIN)) is not None:
            clustering.parse_domain(columns)
        return
    required = breach in breaches(state, table_id, SPEC_TERMS)
    rule = "the specification of managed tables requires it" if required else "the Delta API requires it"
    dropped = before is not None and breach not in breaches(before, table_id, terms)
    raise InvalidInput(
        f"{breach.message}; {rule}{', and the table had it before this commit' if dropped else ''}", field=breach.field
    )


def breaches(state: TableState, table_id: str, terms: Terms) -> Iterator[Breach]:
    """Every term that the state does not fulfil."""
    yield from _protocol_breaches(state, terms)
    yield from _property_breaches(state, table_id, terms)
    yield from _domain_breaches(state)


def _protocol_breaches(state: TableState, terms: Terms) -> Iterator[Breach]:
    protocol = state.protocol
    if protocol.min_reader_version < MIN_READER:
        yield Breach(f"minReaderVersion must be at least {MIN_READER}", "protocol.minReaderVersion")
    if protocol.min_writer_version < MIN_WRITER:
        yield Breach(f"minWriterVersion must be at least {MIN_WRITER}", "protocol.minWriterVersion")
    for feature in protocol.reader_features:
        if feature not in protocol.writer_features:
            yield Breach(f"the reader feature {feature!r} is not a writer feature", "protocol.writerFeatures")
    for feature in _applicable(terms.features, state):
        if feature not in protocol.writer_features:
            yield Breach(f"the writer feature {feature!r} is missing", "protocol.writerFeatures")
        if feature not in WRITER_ONLY and feature not in protocol.reader_features:
            yield Breach(f"the reader feature {feature!r} is missing", "protocol.readerFeatures")


def _property_breaches(state: TableState, table_id: str, terms: Terms) -> Iterator[Breach]:
    configuration = state.configuration
    expected = {key: terms.properties[key] for key in _applicable(terms.properties, state)}
    for key, value in ({TABLE_ID: table_id} | expected).items():
        if configuration.get(key) != value:
            found = f"got {configuration[key]!r}" if key in configuration else "but it is not set"
            yield Breach(f"the property {key} must be {value!r}, {found}", f"metaData.configuration.{key}")


def _applicable(terms: tuple[str, ...] | dict[str, str], state: TableState) -> list[str]:
    iceberg_v2 = state.configuration.get("delta.enableIcebergCompatV2") == "true"
    return [term for term in terms if not (iceberg_v2 and term in NOT_WITH_ICEBERG_V2)]


def _domain_breaches(state: TableState) -> Iterator[Breach]:
    """A domain without its feature is an error, because no writer would keep it up to date."""
    present = [*state.domains, *([] if state.row_id_mark is None else [row_ids.DOMAIN])]
    for domain in present:
        for feature in ("domainMetadata", DOMAIN_FEATURES.get(domain, "domainMetadata")):
            if feature not in state.protocol.writer_features:
                yield Breach(f"the domain {domain} requires the writer feature {feature!r}", f"domainMetadata.{domain}")
