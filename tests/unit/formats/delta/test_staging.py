"""The terms that the catalog states before a table is written."""

import msgspec

from moorage.formats.delta.actions import read_commit
from moorage.formats.delta.contract import DELTA_API_TERMS, first_state
from moorage.formats.delta.staging import staging_terms
from tests.unit.formats.delta import commits as make


def test_14_the_terms_equal_those_that_unity_sends() -> None:
    blocks = msgspec.to_builtins(staging_terms("an-id"))
    assert blocks["required-protocol"] == {
        "min-reader-version": 3,
        "min-writer-version": 7,
        "reader-features": ("catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors"),
        "writer-features": (
            "catalogManaged",
            "v2Checkpoint",
            "vacuumProtocolCheck",
            "deletionVectors",
            "inCommitTimestamp",
        ),
    }
    assert blocks["suggested-protocol"] == {
        "reader-features": ("columnMapping",),
        "writer-features": ("columnMapping", "domainMetadata", "rowTracking"),
    }
    assert blocks["required-properties"] == {
        "delta.enableInCommitTimestamps": "true",
        "delta.checkpoint.writeStatsAsJson": "true",
        "delta.checkpointPolicy": "v2",
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.enableDeletionVectors": "true",
        "io.unitycatalog.tableId": "an-id",
    }
    assert blocks["suggested-properties"] == {
        "delta.enableRowTracking": "true",
        "delta.rowTracking.materializedRowIdColumnName": None,
        "delta.columnMapping.maxColumnId": None,
        "delta.randomizeFilePrefixes": "true",
        "delta.parquet.compression.codec": "zstd",
        "delta.rowTracking.materializedRowCommitVersionColumnName": None,
        "delta.columnMapping.mode": "name",
        "delta.enableExpiredLogCleanup": "false",
    }


def test_a_first_commit_that_meets_the_required_terms_is_accepted() -> None:
    terms = staging_terms(make.TABLE_ID)
    protocol = make.protocol(
        readerFeatures=list(terms.required_protocol.reader_features),
        writerFeatures=list(terms.required_protocol.writer_features),
    )
    metadata = make.metadata(configuration=terms.required_properties)
    commit = read_commit(make.file_of(make.commit_info(), protocol, metadata))
    state = first_state(commit, table_id=make.TABLE_ID, terms=DELTA_API_TERMS)
    assert state.configuration == terms.required_properties
