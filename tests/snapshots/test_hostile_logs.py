"""Wrong and damaged logs are read or refused with a Moorage error, and never fail in another way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage.core.errors import MoorageError
from moorage.formats.delta.paths import path_check_for
from moorage.formats.delta.replay import to_files
from moorage.snapshots.confinement import NEEDS_EXACT_CHECK
from moorage.snapshots.predicates import Compare
from moorage.snapshots.snapshots import Snapshots
from moorage.storage.local import LocalStorage
from tests.snapshots.log_builder import CHECKPOINT_KINDS, CheckpointKind, LogBuilder, add, metadata, statistics
from tests.snapshots.test_versions import write_eight_versions

EXAMPLES = 2_000 if os.environ.get("MOORAGE_SOAK") else 25
SUPPRESSED = [HealthCheck.function_scoped_fixture]


async def read_all(log: LogBuilder) -> None:
    """Call everything that reads a table."""
    snapshots = Snapshots(LocalStorage(log.folder.parent))
    with contextlib.suppress(MoorageError):
        snapshot = await snapshots.at(log.ref())
        to_files(snapshot.select())
        await snapshots.files(snapshot, Compare(("id",), "=", 1))
    with contextlib.suppress(MoorageError):
        async for _ in snapshots.changes(log.ref(), 0):
            pass


@pytest.mark.parametrize("kind", CHECKPOINT_KINDS)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SUPPRESSED)
@given(data=st.data())
def test_a_checkpoint_with_wrong_bytes_is_read_or_refused(
    tmp_path: Path, kind: CheckpointKind, data: st.DataObject
) -> None:
    log = LogBuilder(tmp_path / "table")
    write_eight_versions(log)
    log.commit(add("x", stats=statistics(id=(0, 1, 0))))
    log.checkpoint(8, kind)
    victim = data.draw(st.sampled_from(sorted((*log.log.glob("*checkpoint*"), *log.log.glob("_sidecars/*")))))
    whole = bytearray(victim.read_bytes())
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        whole[at] = value
    victim.write_bytes(whole[: data.draw(st.integers(len(whole) // 2, len(whole)))])
    asyncio.run(read_all(log))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = st.dictionaries(
    st.sampled_from(
        ["path", "partitionValues", "size", "stats", "tags", "deletionVector", "version", "appId", "schemaString"]
    ),
    VALUES,
    max_size=5,
)
KINDS = st.sampled_from(
    ["add", "remove", "cdc", "metaData", "protocol", "txn", "domainMetadata", "commitInfo", "sidecar"]
)


@settings(max_examples=EXAMPLES * 3, deadline=None, suppress_health_check=SUPPRESSED)
@given(st.lists(st.dictionaries(KINDS, FIELDS | VALUES, max_size=2), max_size=4))
def test_a_commit_with_odd_actions_is_read_or_refused(tmp_path: Path, actions: list[dict[str, object]]) -> None:
    log = LogBuilder(tmp_path / "table")
    write_eight_versions(log)
    log.commit(*actions)
    log.commit(add("y", stats='{"numRecords":"many"}', partitionValues={"p": "\x00"}))
    asyncio.run(read_all(log))


@pytest.mark.parametrize(
    "schema", ["", "{", "5", '{"type":"struct"}', '{"type":"struct","fields":[{"name":"id","type":"decimal(99,1)"}]}']
)
async def test_an_invalid_schema_does_not_prevent_listing_the_files(log: LogBuilder, schema: str) -> None:
    write_eight_versions(log)
    action = metadata()
    action["metaData"]["schemaString"] = schema
    log.commit(action)
    snapshot = await Snapshots(LocalStorage(log.folder)).at(log.ref())
    assert snapshot.select().num_rows == snapshot.count
    await read_all(log)


PIECES = st.sampled_from(
    [*"ab/.:%_-=\\\x00\x7f", "..", "%2e", "%2F", "%5c", "%3a", "%00", "_delta_log", "%5F", "s3://", "file:"]
)


@settings(max_examples=2_000, deadline=None)
@given(st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=12))
def test_a_path_that_needs_no_exact_check_is_inside_its_table(path: str) -> None:
    if not re.search(NEEDS_EXACT_CHECK, path):
        assert path_check_for("file:///tables/t/")(path)
