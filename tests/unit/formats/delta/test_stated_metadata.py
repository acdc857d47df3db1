"""The staged file is the truth. A request may repeat it, but must not contradict it."""

from typing import Any

import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import Protocol, read_commit
from moorage.formats.delta.columns import ColumnInfo
from moorage.formats.delta.contract import SPEC_TERMS, TableState, first_state
from moorage.formats.delta.properties import shown_properties
from moorage.formats.delta.schema import Field, Primitive, Schema
from moorage.formats.delta.stated_metadata import StatedMetadata, require_agreement, require_first_properties
from tests.unit.formats.delta import commits as make


def table(*lines: dict[str, Any], **metadata: Any) -> TableState:
    commit = read_commit(
        make.file_of(
            make.commit_info(),
            make.protocol(writerFeatures=[*make.WRITER_FEATURES, "clustering"]),
            make.metadata(description="managed", **metadata),
            *lines,
        )
    )
    return first_state(commit, table_id=make.TABLE_ID, terms=SPEC_TERMS)


BY_ID = make.domain("delta.clustering", {"clusteringColumns": [["col-39933c91"]]})
STATE = table(BY_ID, make.high_water_mark(4))
PROTOCOL = Protocol(
    min_reader_version=3,
    min_writer_version=7,
    reader_features=tuple(reversed(make.READER_FEATURES)),
    writer_features=("clustering", *make.WRITER_FEATURES),
)
SCHEMA = Schema((Field("id", Primitive("long"), nullable=False), Field("v", Primitive("string"))))
COLUMNS = (ColumnInfo(name="id", type_text="bigint", nullable=False), ColumnInfo(name="v", type_text="string"))
CONFIGURED = make.CONFIGURATION


@pytest.mark.parametrize(
    "stated",
    [
        pytest.param(StatedMetadata(), id="nothing"),
        pytest.param(StatedMetadata(columns=COLUMNS), id="columns"),
        pytest.param(StatedMetadata(schema=SCHEMA, partition_columns=()), id="schema-without-its-metadata"),
        pytest.param(StatedMetadata(protocol=PROTOCOL), id="protocol-in-another-order"),
        pytest.param(StatedMetadata(description="managed", provider="parquet"), id="description"),
        pytest.param(StatedMetadata(metadata_id="3f0c6f7e-26ce-4c5a-8d45-6d8a7e0a2b11"), id="metadata-id"),
        pytest.param(StatedMetadata(properties=shown_properties(STATE)), id="all-shown-properties"),
        pytest.param(
            StatedMetadata(
                properties=shown_properties(STATE) | {"delta.lastUpdateVersion": "3", "delta.lastCommitTimestamp": "5"}
            ),
            id="properties-shown-at-an-earlier-version",
        ),
        pytest.param(StatedMetadata(properties=CONFIGURED), id="110-configuration-alone-as-spark-sends-it"),
        pytest.param(StatedMetadata(properties=CONFIGURED | {"provider": "delta"}), id="a-key-of-the-connector"),
        pytest.param(
            StatedMetadata(set_properties={"owner.team": "x"}, removed_properties=("gone",)), id="differences"
        ),
        pytest.param(
            StatedMetadata(set_properties={"delta.feature.novel": "supported", "clusteringColumns": "[]"}),
            id="37-derived-keys-are-not-read",
        ),
        pytest.param(StatedMetadata(clustering_columns=(("id",),), row_id_mark=4), id="domains"),
        pytest.param(StatedMetadata(row_id_mark=3), id="mark-from-before-a-lost-race"),
        pytest.param(StatedMetadata(clustering_columns=(("col-39933c91",),)), id="clustering-by-physical-name"),
        pytest.param(StatedMetadata(removed_domains=("app",)), id="removed-domain"),
    ],
)
def test_a_request_may_repeat_what_the_file_states(stated: StatedMetadata) -> None:
    require_agreement(stated, STATE)


@pytest.mark.parametrize(
    ("stated", "field"),
    [
        pytest.param(StatedMetadata(columns=COLUMNS[:1]), "columns", id="columns"),
        pytest.param(StatedMetadata(schema=Schema(SCHEMA.fields[1:])), "columns", id="schema"),
        pytest.param(StatedMetadata(partition_columns=("v",)), "partition_columns", id="partition-columns"),
        pytest.param(
            StatedMetadata(protocol=Protocol(min_reader_version=3, min_writer_version=7)),
            "protocol.reader-features",
            id="protocol-features",
        ),
        pytest.param(
            StatedMetadata(protocol=Protocol(min_reader_version=2, min_writer_version=7)),
            "protocol.min-reader-version",
            id="protocol-version",
        ),
        pytest.param(StatedMetadata(description="other"), "metadata.description", id="description"),
        pytest.param(StatedMetadata(provider="orc"), "metadata.provider", id="provider"),
        pytest.param(StatedMetadata(metadata_id="other"), "metadata.id", id="metadata-id"),
        pytest.param(
            StatedMetadata(properties={"k": "v"}), "properties.io.unitycatalog.tableId", id="19-108-no-table-id"
        ),
        pytest.param(
            StatedMetadata(properties=CONFIGURED | {"io.unitycatalog.tableId": "x"}),
            "properties.io.unitycatalog.tableId",
            id="20-109-other-table-id",
        ),
        pytest.param(
            StatedMetadata(properties=CONFIGURED | {"owner.team": "y"}), "properties.owner.team", id="other-value"
        ),
        pytest.param(
            StatedMetadata(properties=CONFIGURED | {"delta.feature.novel": "supported"}),
            "properties.delta.feature.novel",
            id="a-feature-that-the-file-lacks",
        ),
        pytest.param(
            StatedMetadata(properties=CONFIGURED | {"delta.minReaderVersion": "2"}),
            "properties.delta.minReaderVersion",
            id="another-reader-version",
        ),
        pytest.param(
            StatedMetadata(properties=CONFIGURED | {"delta.appendOnly": "true"}),
            "properties.delta.appendOnly",
            id="a-property-of-delta-that-the-file-lacks",
        ),
        pytest.param(StatedMetadata(set_properties={"k1": "v1"}), "properties.k1", id="set-but-not-in-the-file"),
        pytest.param(
            StatedMetadata(removed_properties=("owner.team",)), "properties.owner.team", id="removed-but-in-the-file"
        ),
        pytest.param(StatedMetadata(row_id_mark=5), "domain-metadata.delta.rowTracking", id="other-mark"),
        pytest.param(StatedMetadata(clustering_columns=(("v",),)), "clusteringColumns", id="other-clustering"),
        pytest.param(
            StatedMetadata(removed_domains=("delta.rowTracking",)),
            "domain-metadata.delta.rowTracking",
            id="mark-still-present",
        ),
        pytest.param(
            StatedMetadata(removed_domains=("delta.clustering",)),
            "domain-metadata.delta.clustering",
            id="domain-still-present",
        ),
    ],
)
def test_the_error_for_a_contradiction_names_its_field(stated: StatedMetadata, field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        require_agreement(stated, STATE)
    assert caught.value.field == field


FIRST = {
    "delta.lastUpdateVersion": "0",
    "delta.lastCommitTimestamp": str(make.T0),
    "clusteringColumns": '[["id"]]',
}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"delta.lastUpdateVersion": None}, "properties.delta.lastUpdateVersion"),
        ({"delta.lastUpdateVersion": "1"}, "properties.delta.lastUpdateVersion"),
        ({"delta.lastCommitTimestamp": None}, "properties.delta.lastCommitTimestamp"),
        ({"delta.lastCommitTimestamp": "7"}, "properties.delta.lastCommitTimestamp"),
        ({"clusteringColumns": None}, "clusteringColumns"),
        ({"clusteringColumns": '["id"]'}, "clusteringColumns"),
        ({"clusteringColumns": "id"}, "clusteringColumns"),
        ({"clusteringColumns": '[["v"]]'}, "clusteringColumns"),
    ],
)
def test_the_properties_of_a_new_table_must_describe_its_first_version(changes: dict[str, Any], field: str) -> None:
    require_first_properties(FIRST, STATE)
    properties = {key: value for key, value in (FIRST | changes).items() if value is not None}
    with pytest.raises(InvalidInput) as caught:
        require_first_properties(properties, STATE)
    assert caught.value.field == field


def test_clustering_columns_must_be_stated_only_if_the_table_has_any() -> None:
    plain = {key: value for key, value in FIRST.items() if key != "clusteringColumns"}
    require_first_properties(plain, table())
    with pytest.raises(InvalidInput):
        require_first_properties(FIRST, table())
