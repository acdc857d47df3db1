"""What a catalog-managed table must be, at first and ever after."""

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


def test_the_first_commit_of_spark_makes_a_table() -> None:
    state = created(make.protocol(), make.metadata(), make.add(baseRowId=0, defaultRowCommitVersion=0), make.mark(1))
    assert (state.last_update_version, state.last_commit_timestamp, state.row_id_mark) == (0, make.T0, 1)
    assert [field.name for field in state.schema.fields] == ["id", "v"]


def test_the_specification_asks_for_less_than_the_delta_api() -> None:
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
            id="35-reader-feature-that-no-writer-knows",
        ),
        pytest.param(
            [make.protocol(), make.metadata(), make.domain("delta.clustering", {"clusteringColumns": []})],
            "'clustering'",
            id="36-clustering-without-its-feature",
        ),
        pytest.param(
            [without_feature("rowTracking"), make.metadata(), make.mark(3)],
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
def test_a_first_commit_that_breaks_a_term_is_refused_by_its_name(
    lines: list[dict[str, Any]], named: str, terms: Terms
) -> None:
    assert named in refusal(*lines, terms=terms).message


FIXED = [key for key in DELTA_API_TERMS.properties if key not in SPEC_TERMS.properties]


@pytest.mark.parametrize("key", [key for key in FIXED if key != CHECKPOINT_POLICY])
def test_34_the_delta_api_fixes_properties_that_the_specification_recommends(key: str) -> None:
    lines = (make.protocol(), without_property(key))
    assert created(*lines, terms=SPEC_TERMS).configuration.get(key) is None
    assert refusal(*lines).field == f"metaData.configuration.{key}"
    assert key in refusal(make.protocol(), with_properties(**{key: "other"})).message


def test_a_log_that_began_without_a_checkpoint_policy_goes_on_without_on_the_terms_of_the_delta_api() -> None:
    """Delta's kernel in Rust writes none. Where there is one, it is the right one."""
    table = created(make.protocol(), without_property(CHECKPOINT_POLICY))
    committed(table, make.metadata(configuration=table.configuration | {"k": "v"}))
    with pytest.raises(InvalidInput, match="'deletionVectors' is missing"):
        committed(table, without_feature("deletionVectors"))
    assert CHECKPOINT_POLICY in refusal(make.protocol(), with_properties(**{CHECKPOINT_POLICY: "classic"})).message


def test_iceberg_compatibility_frees_a_table_from_deletion_vectors() -> None:
    configuration = make.without(make.CONFIGURATION, "delta.enableDeletionVectors")
    lines = without_feature("deletionVectors"), make.metadata(configuration=configuration)
    assert "deletionVectors" in refusal(*lines).message
    compatible = make.metadata(configuration=configuration | {"delta.enableIcebergCompatV2": "true"})
    assert created(without_feature("deletionVectors"), compatible).last_update_version == 0


def test_a_deletion_vector_needs_a_protocol_that_tells_readers_of_it() -> None:
    """One that passes over it would bring back the rows that were deleted."""
    hiding = make.add("a", deletionVector=make.vector())
    lines = (BARE, make.metadata(configuration=BARE_CONFIGURATION))
    assert "'deletionVectors'" in refusal(*lines, hiding, terms=SPEC_TERMS).message
    table = created(*lines, terms=SPEC_TERMS)
    with pytest.raises(InvalidInput, match="lacks the feature 'deletionVectors'"):
        committed(table, hiding)
    committed(table, make.remove("a", deletionVector=make.vector()))
    told = [*BARE_READERS, "deletionVectors"]
    committed(table, hiding, make.protocol(readerFeatures=told, writerFeatures=[*told, "inCommitTimestamp"]))


def test_a_first_commit_without_its_time_is_refused() -> None:
    commit = read_commit(make.file_of(make.commit_info(timestamp=None), make.protocol(), make.metadata()))
    with pytest.raises(InvalidInput, match="inCommitTimestamp"):
        first_state(commit, table_id=make.TABLE_ID)


STATE = created(make.protocol(), make.metadata(), make.mark(9))


def test_rows_alone_move_nothing_but_the_mark() -> None:
    after = committed(STATE, make.add("a", baseRowId=10, defaultRowCommitVersion=1), make.mark(11))
    assert after.row_id_mark == 11
    assert changes_only_rows(STATE, after)
    assert (after.last_update_version, after.last_commit_timestamp) == (0, make.T0)


def test_154_a_change_of_metadata_moves_the_version_and_the_time() -> None:
    after = committed(STATE, with_properties(k1="v1"), version=4)
    assert not changes_only_rows(STATE, after)
    assert (after.last_update_version, after.last_commit_timestamp) == (4, T1)
    assert after.configuration["k1"] == "v1"
    assert after.row_id_mark == 9


def test_domains_come_and_go_by_their_names() -> None:
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
        pytest.param(without_feature("rowTracking"), "delta.rowTracking", id="145-row-tracking-while-its-mark-is-kept"),
        pytest.param(
            without_property("delta.enableInCommitTimestamps"), "delta.enableInCommitTimestamps", id="113-property"
        ),
        pytest.param(with_properties(**{"io.unitycatalog.tableId": "x"}), "io.unitycatalog.tableId", id="109-other-id"),
    ],
)
def test_a_commit_may_not_drop_what_the_table_promised(line: dict[str, Any], named: str) -> None:
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


def test_145_row_tracking_may_go_together_with_its_mark() -> None:
    gone = make.domain("delta.rowTracking", {}, removed=True)
    assert committed(STATE, without_feature("rowTracking"), gone).row_id_mark is None


def test_a_table_on_the_terms_of_the_specification_stays_free_of_the_others() -> None:
    state = created(BARE, make.metadata(configuration=BARE_CONFIGURATION), terms=SPEC_TERMS)
    after = committed(state, make.metadata(configuration=BARE_CONFIGURATION | {"k": "v"}))
    assert after.configuration["k"] == "v"


def test_suspended_row_tracking_gives_out_no_ids() -> None:
    state = created(make.protocol(), with_properties(**{"delta.rowTrackingSuspended": "true"}))
    assert committed(state, make.add("a")).row_id_mark is None


def test_the_row_ids_of_a_commit_are_counted_from_the_mark_of_the_state() -> None:
    with pytest.raises(InvalidInput, match="not above the high-water mark 9"):
        committed(STATE, make.add("a", baseRowId=9, defaultRowCommitVersion=1), make.mark(10))


def test_a_state_is_kept_in_the_ledger_as_plain_values() -> None:
    state = created(CLUSTERED, make.metadata(description="d"), make.domain("app", {"x": 1}), make.mark(3))
    kept = json.loads(msgspec.json.encode(state.to_details()))
    assert TableState.from_details(kept) == state
    assert kept["metadata"]["configuration"] == make.CONFIGURATION
    assert kept["rowIdMark"] == 3


def test_unity_shows_the_log_as_properties() -> None:
    state = created(make.protocol(), make.metadata(), make.mark(4))
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


def test_clustering_columns_are_shown_by_the_names_that_people_use() -> None:
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


def test_37_what_follows_from_the_log_wins_over_what_was_set_by_hand() -> None:
    state = created(
        make.protocol(), with_properties(**{"delta.minReaderVersion": "1", "delta.lastUpdateVersion": "77"})
    )
    shown = shown_properties(state)
    assert (shown["delta.minReaderVersion"], shown["delta.lastUpdateVersion"]) == ("3", "0")
