"""What a request says about the table after its commit. The staged file is the truth: it may repeat it.

A claim that contradicts the file is refused, because one of the two was not what its author meant. A claim
that is silent about something says nothing against it.
"""

from __future__ import annotations

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.delta import clustering, row_ids
from moorage.formats.delta.actions import Protocol
from moorage.formats.delta.columns import ColumnInfo, first_difference, schema_difference
from moorage.formats.delta.contract import TABLE_ID, TableState
from moorage.formats.delta.properties import (
    FROM_VERSIONS,
    LAST_COMMIT_TIMESTAMP,
    LAST_UPDATE_VERSION,
    clustering_columns,
    is_from_protocol,
    protocol_properties,
)
from moorage.formats.delta.schema import Schema


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Whatever a request states about the table; None where it is silent."""

    metadata_id: str | None = None
    description: str | None = None
    provider: str | None = None
    columns: tuple[ColumnInfo, ...] | None = None
    """The columns of Unity's own API."""
    schema: Schema | None = None
    """The columns of `/delta/v1`."""
    partition_columns: tuple[str, ...] | None = None
    protocol: Protocol | None = None
    properties: dict[str, str] | None = None
    """All of them, as Unity's own API sends them: those of the protocol are among them, and count."""
    set_properties: dict[str, str] = {}
    """The difference, as `/delta/v1` sends it: what follows from the protocol is not read from here."""
    removed_properties: tuple[str, ...] = ()
    clustering_columns: clustering.ColumnPaths | None = None
    row_id_mark: int | None = None
    removed_domains: tuple[str, ...] = ()


def require_agreement(claim: Claim, state: TableState) -> None:
    """Raise the first thing in which the request contradicts the file."""
    _compare_metadata(claim, state)
    _compare_columns(claim, state)
    _compare_protocol(claim.protocol, state.protocol)
    if claim.properties is not None:
        _compare_all_properties(claim.properties, state)
    _compare_some_properties(claim, state)
    _compare_domains(claim, state)


def require_first_properties(properties: dict[str, str], state: TableState) -> None:
    """What the properties of a POST /tables must say about the version that it registers."""
    _require(properties, LAST_UPDATE_VERSION, "0")
    _require(properties, LAST_COMMIT_TIMESTAMP, str(state.last_commit_timestamp))
    if clustering.FEATURE not in state.protocol.writer_features:
        return
    stated = properties.get(clustering.PROPERTY)
    actual = clustering_columns(state)
    if stated is None and actual is not None:
        raise InvalidInput(
            f"the property {clustering.PROPERTY} is required: the table is clustered", field=clustering.PROPERTY
        )
    if stated is not None:
        _compare_clustering(clustering.parse_column_paths(stated), state)


def _require(properties: dict[str, str], key: str, value: str) -> None:
    if properties.get(key) != value:
        found = f"not {properties[key]!r}" if key in properties else "but is missing"
        raise InvalidInput(f"the property {key} must be {value!r}, {found}", field=f"properties.{key}")


def _compare_metadata(claim: Claim, state: TableState) -> None:
    facts = (
        ("metadata.id", claim.metadata_id, state.metadata.id),
        ("metadata.description", claim.description, state.metadata.description or ""),
        ("metadata.provider", claim.provider, state.metadata.format.provider),
    )
    for field, stated, actual in facts:
        if stated is not None and stated != actual:
            raise _contradiction(field, stated, actual)


def _compare_columns(claim: Claim, state: TableState) -> None:
    difference = None
    if claim.columns is not None:
        difference = first_difference(claim.columns, state.schema)
    if claim.schema is not None:
        difference = difference or schema_difference(claim.schema, state.schema)
    if difference is not None:
        raise InvalidInput(f"the columns of the request are not those of the file: {difference}", field="columns")
    stated, actual = claim.partition_columns, state.metadata.partition_columns
    if stated is not None and [name.lower() for name in stated] != [name.lower() for name in actual]:
        raise _contradiction("partition_columns", list(stated), list(actual))


def _compare_protocol(stated: Protocol | None, actual: Protocol) -> None:
    if stated is None:
        return
    facts = (
        ("protocol.min-reader-version", stated.min_reader_version, actual.min_reader_version),
        ("protocol.min-writer-version", stated.min_writer_version, actual.min_writer_version),
        ("protocol.reader-features", sorted(stated.reader_features), sorted(actual.reader_features)),
        ("protocol.writer-features", sorted(stated.writer_features), sorted(actual.writer_features)),
    )
    for field, claimed, found in facts:
        if claimed != found:
            raise _contradiction(field, claimed, found)


def _compare_all_properties(stated: dict[str, str], state: TableState) -> None:
    if TABLE_ID not in stated:
        raise InvalidInput(f"the properties must contain {TABLE_ID}", field=f"properties.{TABLE_ID}")
    actual = state.configuration | protocol_properties(state.protocol)
    for key, value in stated.items():
        # Spark's connector adds keys of its own, such as provider: what Delta has no say in, it need not know.
        known = key in actual or key.startswith(("delta.", "io.unitycatalog."))
        if known and key not in FROM_VERSIONS and actual.get(key) != value:
            raise _contradiction(f"properties.{key}", value, actual.get(key))


def _compare_some_properties(claim: Claim, state: TableState) -> None:
    for key, value in claim.set_properties.items():
        derived = key in FROM_VERSIONS or is_from_protocol(key)
        if not derived and state.configuration.get(key) != value:
            raise _contradiction(f"properties.{key}", value, state.configuration.get(key))
    for key in claim.removed_properties:
        if key in state.configuration:
            raise _contradiction(f"properties.{key}", None, state.configuration[key])


def _compare_domains(claim: Claim, state: TableState) -> None:
    if claim.clustering_columns is not None:
        _compare_clustering(claim.clustering_columns, state)
    # Spark with Delta 4.4 that lost a race writes its file anew, above the row ids of the winner, but states the mark
    # that it had before.
    mark = row_ids.NO_MARK if state.row_id_mark is None else state.row_id_mark
    if claim.row_id_mark is not None and claim.row_id_mark > mark:
        raise _contradiction(f"domain-metadata.{row_ids.DOMAIN}", claim.row_id_mark, state.row_id_mark)
    present = {*state.domains, *(() if state.row_id_mark is None else (row_ids.DOMAIN,))}
    for domain in claim.removed_domains:
        if domain in present:
            raise _contradiction(f"domain-metadata.{domain}", None, "still there")


def _compare_clustering(stated: clustering.ColumnPaths, state: TableState) -> None:
    """By the names people use or by those of the log: clients send either."""
    actual = clustering_columns(state) or ()
    if stated != actual and clustering.logical(stated, state.schema) != actual:
        raise _contradiction(clustering.PROPERTY, stated, actual)


def _contradiction(field: str, stated: object, actual: object) -> InvalidInput:
    return InvalidInput(f"{field}: the request says {stated!r}, the file says {actual!r}", field=field)
