"""What a catalog-managed table must be, at its first version and after every other.

`TableState` is what the catalog keeps of a table's log: whatever a reader needs to know before it reads a
file. It follows from commits alone; a request may repeat what they say, but adds nothing to it.
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
"""Asked of requests. Delta's kernel in Rust states it there, but does not know it as a property of a table."""

WRITER_ONLY: Final = frozenset(("inCommitTimestamp", "domainMetadata", "rowTracking", "clustering"))
"""Features that concern writers alone; of those named here, all others must be in both lists."""


class Terms(msgspec.Struct, frozen=True):
    """The features and fixed properties that a family of the API demands."""

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
NOT_WITH_ICEBERG_V2: Final = frozenset((VECTORS, "delta.enableDeletionVectors"))
"""Iceberg compatibility V2 forbids deletion vectors, so such a table cannot be asked for them."""

DOMAIN_FEATURES: Final = {clustering.DOMAIN: clustering.FEATURE, row_ids.DOMAIN: row_ids.FEATURE}


class TableState(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, dict=True):
    """A table's log at one version, without its files."""

    protocol: Protocol
    metadata: Metadata
    domains: dict[str, str] = {}
    """Domain → configuration, but for row tracking's, which is the mark."""
    row_id_mark: int | None = None
    last_update_version: int
    """The last version that changed more than rows."""
    last_commit_timestamp: int
    """That version's time."""

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
    """One term of the contract that a state does not keep."""

    message: str
    field: str


def first_state(commit: CommitFile, *, table_id: str, terms: Terms = SPEC_TERMS) -> TableState:
    """The state that 0.json makes; InvalidInput if such a table cannot be managed by a catalog."""
    if commit.commit_info is None or commit.commit_info.in_commit_timestamp is None:
        raise InvalidInput("0.json must begin with a commitInfo that has an inCommitTimestamp", field="commitInfo")
    if commit.protocol is None or commit.metadata is None:
        lacking = "protocol" if commit.protocol is None else "metaData"
        raise InvalidInput(f"0.json has no {lacking}, so it is not the first commit of a Delta table", field=lacking)
    bare = TableState(
        protocol=commit.protocol,
        metadata=commit.metadata,
        last_update_version=0,
        last_commit_timestamp=commit.commit_info.in_commit_timestamp,
    )
    state = _with_domains(bare, commit, version=0)
    _require_hiding(commit, state.protocol)
    require_contract(state, table_id=table_id, terms=_as_written(terms, state), before=None)
    return state


def next_state(state: TableState, commit: CommitFile, *, version: int, timestamp_ms: int, table_id: str) -> TableState:
    """The state after a commit; InvalidInput if the commit breaks what the table promised so far.

    A commit of rows alone gives the same state, but for the row id mark.
    """
    changed = replace(state, protocol=commit.protocol or state.protocol, metadata=commit.metadata or state.metadata)
    after = _with_domains(changed, commit, version=version)
    _require_hiding(commit, after.protocol)
    if is_same_table(state, after):
        return after
    # A table made by the Delta API was made on its terms, and it stays on them.
    written = _as_written(DELTA_API_TERMS, state)
    terms = SPEC_TERMS if next(breaches(state, table_id, written), None) else written
    require_contract(after, table_id=table_id, terms=terms, before=state)
    return replace(after, last_update_version=version, last_commit_timestamp=timestamp_ms)


def _as_written(terms: Terms, state: TableState) -> Terms:
    """The terms as they can be asked of a log: one that began without a checkpoint policy may go on without."""
    if CHECKPOINT_POLICY in state.configuration:
        return terms
    return Terms(terms.features, {key: value for key, value in terms.properties.items() if key != CHECKPOINT_POLICY})


def _require_hiding(commit: CommitFile, protocol: Protocol) -> None:
    """Deletion vectors only where the protocol tells of them: a reader that passes over one brings rows back."""
    if commit.hides_rows and not (VECTORS in protocol.reader_features and VECTORS in protocol.writer_features):
        raise InvalidInput(f"a file has a deletion vector, but the table lacks the feature {VECTORS!r}", field="add")


def is_same_table(before: TableState, after: TableState) -> bool:
    """Whether nothing changed but rows: then the table's record and its etag stay as they are."""
    return after.protocol == before.protocol and after.metadata == before.metadata and after.domains == before.domains


def _with_domains(state: TableState, commit: CommitFile, *, version: int) -> TableState:
    domains = dict(state.domains)
    for action in commit.domains:
        if action.removed:
            domains.pop(action.domain, None)
        elif action.domain != row_ids.DOMAIN:
            domains[action.domain] = action.configuration
    mark = row_ids.next_mark(commit, state.row_id_mark, version=version, tracked=state.tracks_rows())
    return replace(state, domains=domains, row_id_mark=mark)


def require_contract(state: TableState, *, table_id: str, terms: Terms, before: TableState | None) -> None:
    """Raise the first term that the state does not keep; where it kept it before, say that it was dropped."""
    broken = next(breaches(state, table_id, terms), None)
    if broken is None:
        require_partition_columns(state.schema, state.metadata.partition_columns, field="metaData.partitionColumns")
        if (columns := state.domains.get(clustering.DOMAIN)) is not None:
            clustering.parse_domain(columns)
        return
    dropped = before is not None and broken not in breaches(before, table_id, terms)
    why = "the table had it until this commit" if dropped else "a catalog-managed table needs it"
    raise InvalidInput(f"{broken.message}; {why}", field=broken.field)


def breaches(state: TableState, table_id: str, terms: Terms) -> Iterator[Breach]:
    """Every term that the state does not keep."""
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
            yield Breach(f"the reader feature {feature!r} is no writer feature", "protocol.writerFeatures")
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
            found = f"not {configuration[key]!r}" if key in configuration else "but is not set"
            yield Breach(f"the property {key} must be {value!r}, {found}", f"metaData.configuration.{key}")


def _applicable(terms: tuple[str, ...] | dict[str, str], state: TableState) -> list[str]:
    iceberg_v2 = state.configuration.get("delta.enableIcebergCompatV2") == "true"
    return [term for term in terms if not (iceberg_v2 and term in NOT_WITH_ICEBERG_V2)]


def _domain_breaches(state: TableState) -> Iterator[Breach]:
    """A domain outlives its feature only by mistake: no writer would keep it right."""
    present = [*state.domains, *([] if state.row_id_mark is None else [row_ids.DOMAIN])]
    for domain in present:
        for feature in ("domainMetadata", DOMAIN_FEATURES.get(domain, "domainMetadata")):
            if feature not in state.protocol.writer_features:
                yield Breach(f"the domain {domain} needs the writer feature {feature!r}", f"domainMetadata.{domain}")
