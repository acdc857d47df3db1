"""The terms that a catalog-managed table must meet, in its first commit and in every later one."""

import json
from typing import Any

import msgspec
import pytest

from moorage.core.errors import InvalidInput
from moorage.formats.delta.actions import read_commit
from moorage.formats.delta.contract import (
    CHECKPOINT_POLICY,
    DELTA_API_TERMS,
    SPEC_TERMS,
    TableState,
    Terms,
    changes_only_rows,
    first_state,
    next_state,
)
from moorage.formats.delta.properties import shown_properties
from tests.unit.formats.delta import commits as make

BARE_READERS = ["catalogManaged", "vacuumProtocolCheck"]
BARE = make.protocol(readerFeatures=BARE_READERS, writerFeatures=[*BARE_READERS, "inCommitTimestamp"])
BARE_CONFIGURATION = {"delta.enableInCommitTimestamps": "true", "io.unitycatalog.tableId": make.TABLE_ID}
CLUSTERED = make.protocol(writerFeatures=[*make.WRITER_FEATURES, "clustering"])
T1 = make.T0 + 1


def created(*lines: dict[str, Any], terms: Terms = DELTA_API_TERMS) -> TableState:
    commit = read_commit(make.file_of(make.commit_info(), *lines))
    return first_state(commit, table_id=make.TABLE_ID, terms=terms)


def refusal(*lines: dict[str, Any], terms: Terms = DELTA_API_TERMS) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        created(*lines, terms=terms)
    return caught.value


def committed(state: TableState, *lines: dict[str, Any], version: int = 1) -> TableState:
    commit = read_commit(make.file_of(make.commit_info(T1), *lines))
    return next_state(state, commit, version=version, timestamp_ms=T1, table_id=make.TABLE_ID)


def without_feature(feature: str) -> dict[str, Any]:
    return make.protocol(
        readerFeatures=[name for name in make.READER_FEATURES if name != feature],
        writerFeatures=[name for name in make.WRITER_FEATURES if name != feature],
    )


def without_property(key: str) -> dict[str, Any]:
    return make.metadata(configuration=make.without(make.CONFIGURATION, key))


def with_properties(**changes: str) -> dict[str, Any]:
    return make.metadata(configuration=make.CONFIGURATION | changes)


def test_a_first_commit_as_spark_writes_it_is_accepted() -> None:
    state = created(
        make.protocol(), make.metadata(), make.add(baseRowId=0, defaultRowCommitVersion=0), make.high_water_mark(1)
    )
    assert (state.last_update_version, state.last_commit_timestamp, state.row_id_mark) == (0, make.T0, 1)
    assert [field.name for field in state.schema.fields] == ["id", "v"]


def test_the_specification_requires_less_than_the_delta_api() -> None:
    lines = (BARE, make.metadata(configuration=BARE_CONFIGURATION))
    assert created(*lines, terms=SPEC_TERMS).protocol.features == {*BARE_READERS, "inCommitTimestamp"}
    assert "v2Checkpoint" in refusal(*lines).message


@pytest.mark.parametrize("terms", [SPEC_TERMS, DELTA_API_TERMS], ids=["spec", "delta-api"])
@pytest.mark.parametrize(
    ("lines", "named"),
    [
        pytest.param([make.metadata()], "protocol", id="17-no-protocol"),
        pytest.param([make.protocol()], "metaData", id="17-no-metadata"),
        pytest.param(
            [without_feature("catalogManaged"), make.metadata()], "catalogManaged", id="18-33-catalog-managed"
        ),
        pytest.param(
            [without_feature("inCommitTimestamp"), make.metadata()], "inCommitTimestamp", id="18-33-in-commit-timestamp"
        ),
        pytest.param(
            [without_feature("vacuumProtocolCheck"), make.metadata()],
            "vacuumProtocolCheck",
            id="18-33-vacuum-protocol-check",
        ),
        pytest.param(
            [make.protocol(readerFeatures=["vacuumProtocolCheck"]), make.metadata()],
            "the reader feature",
            id="18-33-readers-must-know-it-too",
        ),
        pytest.param(
            [make.protocol(), without_property("io.unitycatalog.tableId")],
            "io.unitycatalog.tableId",
            id="19-no-table-id",
        ),
        pytest.param(
            [make.protocol(), with_properties(**{"io.unitycatalog.tableId": "another"})],
            "got 'another'",
            id="20-other-id",
        ),
        pytest.param(
            [make.protocol(), without_property("delta.enableInCommitTimestamps")],
            "delta.enableInCommitTimestamps",
            id="18-34-in-commit-timestamps-off",
        ),
        pytest.param([make.protocol(minReaderVersion=2), make.metadata()], "minReaderVersion", id="32-reader-2"),
        pytest.param([make.protocol(minWriterVersion=6), make.metadata()], "minWriterVersion", id="32-writer-6"),
        pytest.param(
            [make.protocol(readerFeatures=[*make.READER_FEATURES, "novel"]), make.metadata()],
            "'novel' is not a writer feature",
            id="35-reader-feature-that-is-not-a-writer-feature",
        ),
        pytest.param(
            [make.protocol(), make.metadata(), make.domain("delta.clustering", {"clusteringColumns": []})],
            "'clustering'",
            id="36-clustering-without-its-feature",
        ),
        pytest.param(
            [without_feature("rowTracking"), make.metadata(), make.high_water_mark(3)],
            "'rowTracking'",
            id="36-row-tracking-without-its-feature",
        ),
        pytest.param(
            [without_feature("domainMetadata"), make.metadata(), make.domain("app", {})],
            "'domainMetadata'",
            id="36-a-domain-without-the-feature-of-domains",
        ),
        pytest.param([make.protocol(), make.metadata(partitionColumns=["gone"])], "'gone'", id="38-partition-column"),
        pytest.param([make.protocol(), make.metadata(schemaString="[]")], "schemaString", id="41-no-schema"),
        pytest.param(
            [CLUSTERED, make.metadata(), make.domain("delta.clustering", {"clusteringColumns": "id"})],
            "clusteringColumns",
            id="36-clustering-without-columns",
        ),
    ],
)
def test_the_error_for_a_first_commit_that_breaks_a_term_names_it(
    lines: list[dict[str, Any]], named: str, terms: Terms
) -> None:
    assert named in refusal(*lines, terms=terms).message


FIXED = [key for key in DELTA_API_TERMS.properties if key not in SPEC_TERMS.properties]


@pytest.mark.parametrize("key", [key for key in FIXED if key != CHECKPOINT_POLICY])
def test_34_the_delta_api_requires_properties_that_the_specification_recommends(key: str) -> None:
    lines = (make.protocol(), without_property(key))
    assert created(*lines, terms=SPEC_TERMS).configuration.get(key) is None
    assert refusal(*lines).field == f"metaData.configuration.{key}"
    assert key in refusal(make.protocol(), with_properties(**{key: "other"})).message


def test_a_table_of_the_delta_api_that_began_without_a_checkpoint_policy_may_stay_without_one() -> None:
    """Delta's kernel in Rust writes none. A table that is created with a policy must have 'v2'."""
    table = created(make.protocol(), without_property(CHECKPOINT_POLICY))
    committed(table, make.metadata(configuration=table.configuration | {"k": "v"}))
    with pytest.raises(InvalidInput, match="'deletionVectors' is missing"):
        committed(table, without_feature("deletionVectors"))
    assert CHECKPOINT_POLICY in refusal(make.protocol(), with_properties(**{CHECKPOINT_POLICY: "classic"})).message


def test_a_table_with_iceberg_compatibility_needs_no_deletion_vectors() -> None:
    configuration = make.without(make.CONFIGURATION, "delta.enableDeletionVectors")
    lines = without_feature("deletionVectors"), make.metadata(configuration=configuration)
    assert "deletionVectors" in refusal(*lines).message
    compatible = make.metadata(configuration=configuration | {"delta.enableIcebergCompatV2": "true"})
    assert created(without_feature("deletionVectors"), compatible).last_update_version == 0


def test_a_deletion_vector_requires_its_feature_in_the_protocol() -> None:
    """A reader that ignores the vector would return deleted rows."""
    with_vector = make.add("a", deletionVector=make.vector())
    lines = (BARE, make.metadata(configuration=BARE_CONFIGURATION))
    assert "'deletionVectors'" in refusal(*lines, with_vector, terms=SPEC_TERMS).message
    table = created(*lines, terms=SPEC_TERMS)
    with pytest.raises(InvalidInput, match="lacks the feature 'deletionVectors'"):
        committed(table, with_vector)
    committed(table, make.remove("a", deletionVector=make.vector()))
    readers = [*BARE_READERS, "deletionVectors"]
    committed(table, with_vector, make.protocol(readerFeatures=readers, writerFeatures=[*readers, "inCommitTimestamp"]))


def test_a_first_commit_without_a_timestamp_is_refused() -> None:
    commit = read_commit(make.file_of(make.commit_info(timestamp=None), make.protocol(), make.metadata()))
    with pytest.raises(InvalidInput, match="inCommitTimestamp"):
        first_state(commit, table_id=make.TABLE_ID)


STATE = created(make.protocol(), make.metadata(), make.high_water_mark(9))


def test_a_commit_of_rows_changes_only_the_row_id_high_water_mark() -> None:
    after = committed(STATE, make.add("a", baseRowId=10, defaultRowCommitVersion=1), make.high_water_mark(11))
    assert after.row_id_mark == 11
    assert changes_only_rows(STATE, after)
    assert (after.last_update_version, after.last_commit_timestamp) == (0, make.T0)


def test_154_a_change_of_metadata_updates_the_version_and_the_timestamp() -> None:
    after = committed(STATE, with_properties(k1="v1"), version=4)
    assert not changes_only_rows(STATE, after)
    assert (after.last_update_version, after.last_commit_timestamp) == (4, T1)
    assert after.configuration["k1"] == "v1"
    assert after.row_id_mark == 9


def test_domains_are_set_and_removed_by_name() -> None:
    clustered = committed(STATE, CLUSTERED, make.domain("delta.clustering", {"clusteringColumns": [["col-39933c91"]]}))
    assert shown_properties(clustered)["clusteringColumns"] == '[["id"]]'
    gone = committed(clustered, make.domain("delta.clustering", {}, removed=True), version=2)
    assert gone.domains == {}
    assert gone.last_update_version == 2


def test_replace_is_an_ordinary_commit_with_another_metadata_id() -> None:
    after = committed(STATE, make.metadata(id="new"), make.remove("a"))
    assert (after.metadata.id, after.row_id_mark) == ("new", 9)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        pytest.param(without_feature("catalogManaged"), "'catalogManaged'", id="113-144-catalog-managed"),
        pytest.param(without_feature("v2Checkpoint"), "'v2Checkpoint'", id="144-v2-checkpoint"),
        pytest.param(
            without_feature("rowTracking"),
            "delta.rowTracking",
            id="145-row-tracking-while-its-high-water-mark-is-stored",
        ),
        pytest.param(
            without_property("delta.enableInCommitTimestamps"), "delta.enableInCommitTimestamps", id="113-property"
        ),
        pytest.param(with_properties(**{"io.unitycatalog.tableId": "x"}), "io.unitycatalog.tableId", id="109-other-id"),
    ],
)
def test_a_commit_may_not_break_a_term_that_the_table_meets(line: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        committed(STATE, line)
    assert named in caught.value.message
    assert "before this commit" in caught.value.message


RECOMMENDED = {
    "delta.enableDeletionVectors": "false",
    CHECKPOINT_POLICY: "classic",
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.checkpoint.writeStatsAsStruct": "false",
}


@pytest.mark.parametrize("key", RECOMMENDED)
def test_a_property_that_the_specification_only_recommends_may_change(key: str) -> None:
    after = committed(STATE, with_properties(**{key: RECOMMENDED[key]}))
    assert after.configuration[key] == RECOMMENDED[key]
    later = committed(after, make.metadata(configuration=make.without(after.configuration, key)), version=2)
    assert key not in later.configuration
    with pytest.raises(InvalidInput, match="'v2Checkpoint' is missing; the Delta API requires it, and the table had"):
        committed(after, without_feature("v2Checkpoint"), version=2)


def test_the_error_for_a_broken_contract_names_the_rule() -> None:
    with pytest.raises(InvalidInput, match="got 'false'; the specification of managed tables requires it, and"):
        committed(STATE, with_properties(**{"delta.enableInCommitTimestamps": "false"}))
    assert refusal(make.protocol(), with_properties(**{CHECKPOINT_POLICY: "classic"})).message.endswith(
        "must be 'v2', got 'classic'; the Delta API requires it"
    )


def test_145_row_tracking_may_be_removed_together_with_its_high_water_mark() -> None:
    gone = make.domain("delta.rowTracking", {}, removed=True)
    assert committed(STATE, without_feature("rowTracking"), gone).row_id_mark is None


def test_a_table_on_the_terms_of_the_specification_need_not_meet_the_others() -> None:
    state = created(BARE, make.metadata(configuration=BARE_CONFIGURATION), terms=SPEC_TERMS)
    after = committed(state, make.metadata(configuration=BARE_CONFIGURATION | {"k": "v"}))
    assert after.configuration["k"] == "v"


def test_suspended_row_tracking_assigns_no_ids() -> None:
    state = created(make.protocol(), with_properties(**{"delta.rowTrackingSuspended": "true"}))
    assert committed(state, make.add("a")).row_id_mark is None


def test_the_row_ids_of_a_commit_must_be_above_the_high_water_mark_of_the_state() -> None:
    with pytest.raises(InvalidInput, match="not above the high-water mark 9"):
        committed(STATE, make.add("a", baseRowId=9, defaultRowCommitVersion=1), make.high_water_mark(10))


def test_a_state_is_stored_in_the_ledger_as_plain_values() -> None:
    state = created(CLUSTERED, make.metadata(description="d"), make.domain("app", {"x": 1}), make.high_water_mark(3))
    stored = json.loads(msgspec.json.encode(state.to_details()))
    assert TableState.from_details(stored) == state
    assert stored["metadata"]["configuration"] == make.CONFIGURATION
    assert stored["rowIdMark"] == 3


def test_the_state_of_the_log_is_shown_as_properties_of_unity() -> None:
    state = created(make.protocol(), make.metadata(), make.high_water_mark(4))
    shown = shown_properties(state)
    assert {key: shown.pop(key) for key in list(shown) if key.startswith("delta.feature.")} == {
        f"delta.feature.{name}": "supported" for name in make.WRITER_FEATURES
    }
    assert shown == make.CONFIGURATION | {
        "delta.minReaderVersion": "3",
        "delta.minWriterVersion": "7",
        "delta.lastUpdateVersion": "0",
        "delta.lastCommitTimestamp": str(make.T0),
        "delta.rowTracking.rowIdHighWaterMark": "4",
    }


def test_clustering_columns_are_shown_by_their_logical_names() -> None:
    inner = {
        "name": "city",
        "type": "string",
        "nullable": True,
        "metadata": {"delta.columnMapping.physicalName": "col-c"},
    }
    address = {
        "name": "address",
        "type": {"type": "struct", "fields": [inner]},
        "nullable": True,
        "metadata": {"delta.columnMapping.physicalName": "col-a"},
    }
    columns = [["col-39933c91"], ["col-a", "col-c"], ["lost", "path"]]
    state = created(
        CLUSTERED,
        make.metadata(schemaString=json.dumps({"type": "struct", "fields": [*make.SCHEMA["fields"], address]})),
        make.domain("delta.clustering", {"clusteringColumns": columns, "domainName": "delta.clustering"}),
    )
    assert shown_properties(state)["clusteringColumns"] == '[["id"],["address","city"],["lost","path"]]'


def test_37_properties_derived_from_the_log_override_those_that_a_client_set() -> None:
    state = created(
        make.protocol(), with_properties(**{"delta.minReaderVersion": "1", "delta.lastUpdateVersion": "77"})
    )
    shown = shown_properties(state)
    assert (shown["delta.minReaderVersion"], shown["delta.lastUpdateVersion"]) == ("3", "0")
