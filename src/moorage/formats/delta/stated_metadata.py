"""Stated metadata: what a request asserts about the table after its commit. The staged file is the truth.

A request that contradicts the file is refused, because one of the two is not what the client meant. Anything
that the request leaves out is not compared.
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
    is_protocol_property,
    protocol_properties,
)
from moorage.formats.delta.schema import Schema


class StatedMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata that a request states; None for anything that it leaves out."""

    metadata_id: str | None = None
    description: str | None = None
    provider: str | None = None
    columns: tuple[ColumnInfo, ...] | None = None
    """Columns as Unity's own API sends them."""
    schema: Schema | None = None
    """Columns as `/delta/v1` sends them."""
    partition_columns: tuple[str, ...] | None = None
    protocol: Protocol | None = None
    properties: dict[str, str] | None = None
    """All properties, as Unity's own API sends them. They include those of the protocol, which are compared too."""
    set_properties: dict[str, str] = {}
    """Changed properties, as `/delta/v1` sends them. Those that follow from the protocol are ignored."""
    removed_properties: tuple[str, ...] = ()
    clustering_columns: clustering.ColumnPaths | None = None
    row_id_mark: int | None = None
    removed_domains: tuple[str, ...] = ()


def require_agreement(request: StatedMetadata, state: TableState) -> None:
    """Raise InvalidInput for the first value in which the request contradicts the file."""
    _compare_metadata(request, state)
    _compare_columns(request, state)
    _compare_protocol(request.protocol, state.protocol)
    if request.properties is not None:
        _compare_all_properties(request.properties, state)
    _compare_changed_properties(request, state)
    _compare_domains(request, state)


def require_first_properties(properties: dict[str, str], state: TableState) -> None:
    """Check the properties of a POST /tables against the version that it registers."""
    _require(properties, LAST_UPDATE_VERSION, "0")
    _require(properties, LAST_COMMIT_TIMESTAMP, str(state.last_commit_timestamp))
    if clustering.FEATURE not in state.protocol.writer_features:
        return
    stated = properties.get(clustering.PROPERTY)
    actual = clustering_columns(state)
    if stated is None and actual is not None:
        raise InvalidInput(
            f"the property {clustering.PROPERTY} is required because the table is clustered", field=clustering.PROPERTY
        )
    if stated is not None:
        _compare_clustering(clustering.parse_column_paths(stated), state)


def _require(properties: dict[str, str], key: str, value: str) -> None:
    if properties.get(key) != value:
        found = f"got {properties[key]!r}" if key in properties else "but it is missing"
        raise InvalidInput(f"the property {key} must be {value!r}, {found}", field=f"properties.{key}")


def _compare_metadata(request: StatedMetadata, state: TableState) -> None:
    facts = (
        ("metadata.id", request.metadata_id, state.metadata.id),
        ("metadata.description", request.description, state.metadata.description or ""),
        ("metadata.provider", request.provider, state.metadata.format.provider),
    )
    for field, stated, actual in facts:
        if stated is not None and stated != actual:
            raise _contradiction(field, stated, actual)


def _compare_columns(request: StatedMetadata, state: TableState) -> None:
    difference = None
    if request.columns is not None:
        difference = first_difference(request.columns, state.schema)
    if request.schema is not None:
        difference = difference or schema_difference(request.schema, state.schema)
    if difference is not None:
        raise InvalidInput(f"the columns of the request differ from those of the file: {difference}", field="columns")
    stated, actual = request.partition_columns, state.metadata.partition_columns
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
    for field, wanted, found in facts:
        if wanted != found:
            raise _contradiction(field, wanted, found)


def _compare_all_properties(stated: dict[str, str], state: TableState) -> None:
    if TABLE_ID not in stated:
        raise InvalidInput(f"the properties must contain {TABLE_ID}", field=f"properties.{TABLE_ID}")
    actual = state.configuration | protocol_properties(state.protocol)
    for key, value in stated.items():
        # Spark's connector adds keys of its own, such as provider. Keys that Delta does not define are not compared.
        known = key in actual or key.startswith(("delta.", "io.unitycatalog."))
        if known and key not in FROM_VERSIONS and actual.get(key) != value:
            raise _contradiction(f"properties.{key}", value, actual.get(key))


def _compare_changed_properties(request: StatedMetadata, state: TableState) -> None:
    for key, value in request.set_properties.items():
        derived = key in FROM_VERSIONS or is_protocol_property(key)
        if not derived and state.configuration.get(key) != value:
            raise _contradiction(f"properties.{key}", value, state.configuration.get(key))
    for key in request.removed_properties:
        if key in state.configuration:
            raise _contradiction(f"properties.{key}", None, state.configuration[key])


def _compare_domains(request: StatedMetadata, state: TableState) -> None:
    if request.clustering_columns is not None:
        _compare_clustering(request.clustering_columns, state)
    # After a conflict, Spark with Delta 4.4 rewrites its file above the row ids of the other commit, but still states
    # its earlier high-water mark.
    high_water_mark = row_ids.NO_HIGH_WATER_MARK if state.row_id_mark is None else state.row_id_mark
    if request.row_id_mark is not None and request.row_id_mark > high_water_mark:
        raise _contradiction(f"domain-metadata.{row_ids.DOMAIN}", request.row_id_mark, state.row_id_mark)
    present = {*state.domains, *(() if state.row_id_mark is None else (row_ids.DOMAIN,))}
    for domain in request.removed_domains:
        if domain in present:
            raise _contradiction(f"domain-metadata.{domain}", None, "still present")


def _compare_clustering(stated: clustering.ColumnPaths, state: TableState) -> None:
    """Accept logical names and physical names, because clients send either."""
    actual = clustering_columns(state) or ()
    if stated != actual and clustering.logical(stated, state.schema) != actual:
        raise _contradiction(clustering.PROPERTY, stated, actual)


def _contradiction(field: str, stated: object, actual: object) -> InvalidInput:
    return InvalidInput(f"{field}: the request states {stated!r}, but the commit file has {actual!r}", field=field)
