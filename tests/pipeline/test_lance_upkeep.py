"""Lance tables are compacted and expired by a real worker process, beside writers."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import httpx
import lance
import pyarrow as pa
import pytest

from moorage.client import Client, ClientError
from moorage.client.answers import Job
from moorage.client.lance import Lake
from moorage.core.entries import JobState
from moorage.testing.server import ServerProcess
from tests.pipeline.workers import wait_for

pytestmark = pytest.mark.xdist_group("upkeep")


class Table:
    """A Lance table of small fragments."""

    def __init__(self, server: ServerProcess, name: str, fragments: int = 30) -> None:
        self.lake, self.id = Lake(server.url), ["lake", "sea", name]
        for number in range(fragments):
            self.append(number, mode="append" if number else "create")

    def append(self, number: int, *, mode: str = "append") -> None:
        rows = pa.table({"id": pa.array(range(number * 10, number * 10 + 10), pa.int64()), "n": [number] * 10})
        lance.write_dataset(rows, namespace_client=self.lake, table_id=self.id, mode=mode)

    def open(self, **given: Any) -> lance.LanceDataset:
        return lance.dataset(namespace_client=self.lake, table_id=self.id, **given)

    def ids(self) -> list[int]:
        return sorted(self.open().to_table(columns=["id"])["id"].to_pylist())


def succeeded(client: Client, job: Job) -> Job:
    ended = wait_for(client, job)
    assert ended.state is JobState.SUCCEEDED, ended
    return ended


def test_a_compaction_requested_through_unity_merges_fragments_and_keeps_rows_and_indexes(
    lake: ServerProcess, moored: Client
) -> None:
    table = Table(lake, "compacted")
    table.open().create_scalar_index("id", "BTREE")
    table.append(30)
    table.open().delete("id % 10 = 3")
    before = table.ids()
    compact = f"{lake.url}/api/2.1/unity-catalog/tables/lake.sea.compacted:compact"
    answer = httpx.post(compact, json={}, trust_env=False)
    assert answer.status_code == 202, answer.text
    ended = succeeded(moored, moored.jobs.get(answer.headers["location"].rpartition("/")[2]))
    assert ended.result is not None
    assert (ended.result["before"]["files"], ended.result["before"]["deleted_rows"]) == (31, 31)
    assert ended.result["after"]["files"] <= 2
    assert ended.result["after"]["deleted_rows"] <= 1, "a fragment with at most a tenth deleted is left alone"
    assert ended.progress is not None
    assert ended.progress["spark"]["application"]
    assert table.ids() == before
    (index,) = table.open().describe_indices()
    assert index.num_rows_indexed == len(before)
    health = moored.namespaces.health("lake", ["sea"], "compacted")
    assert [found.problem for found in health.findings if found.due] == []
    assert health.jobs[0].id == ended.id


def test_rows_that_are_appended_during_a_compaction_stay(lake: ServerProcess, moored: Client) -> None:
    table = Table(lake, "busy", 20)
    failures: list[BaseException] = []
    stop = threading.Event()
    appended = [20]

    def write() -> None:
        try:
            while not stop.is_set():
                table.append(appended[0])
                appended[0] += 1
                time.sleep(0.1)
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            succeeded(moored, moored.namespaces.create_job("lake", ["sea"], "busy", "compact"))
    finally:
        stop.set()
        writer.join()
    assert failures == []
    assert table.ids() == list(range(appended[0] * 10))


def test_expiry_keeps_the_newest_version_tags_and_branches(lake: ServerProcess, moored: Client) -> None:
    table = Table(lake, "aged", 10)
    table.open().tags.create("first", 2)
    table.open(version=4).create_branch("side")
    before = table.ids()
    args: dict[str, Any] = {"older_than_days": 0, "keep_last": 2}
    dry = succeeded(moored, moored.namespaces.create_job("lake", ["sea"], "aged", "expire", {**args, "dry_run": True}))
    assert dry.result is not None
    assert dry.result["versions"] == 6
    assert table.open(version=1).count_rows() == 10
    ended = succeeded(moored, moored.namespaces.create_job("lake", ["sea"], "aged", "expire", args))
    assert ended.result is not None
    assert ended.result["versions"] == 6
    assert table.ids() == before
    assert table.open(version="first").count_rows() == 20
    assert table.open().checkout_version(("side", None)).count_rows() == 40
    assert table.open(version=9).count_rows() == 90
    for gone in (1, 3, 5, 8):
        with pytest.raises(Exception, match=r"(?i)version|not found"):
            table.open(version=gone)
    table.append(10)
    assert len(table.ids()) == 110


@pytest.mark.slow
def test_an_old_version_stays_that_was_current_until_a_moment_ago(lake: ServerProcess, moored: Client) -> None:
    table = Table(lake, "kept", 3)
    table.open().optimize.compact_files()  # so that no fragment of the first version is left in the last one
    last, began = table.open().version, time.time()
    time.sleep(15)
    table.append(3)
    table.open().optimize.compact_files()
    age = {"older_than_days": (time.time() - began - 2) / 86_400}
    succeeded(moored, moored.namespaces.create_job("lake", ["sea"], "kept", "expire", age))
    with pytest.raises(Exception, match=r"(?i)version|not found"):
        table.open(version=1)
    found = table.open(version=last).to_table(columns=["id"])["id"].to_pylist()
    assert sorted(found) == list(range(30)), "a query that began before the compaction still reads its files"


def test_a_job_for_a_table_that_was_dropped_fails_with_the_reason(lake: ServerProcess, moored: Client) -> None:
    Table(lake, "lost", 2)
    blocking = moored.namespaces.create_job("lake", ["sea"], "busy", "expire")
    job = moored.namespaces.create_job("lake", ["sea"], "lost", "compact")
    httpx.post(f"{lake.url}/lance/v1/table/lake$sea$lost/drop", trust_env=False).raise_for_status()
    ended = wait_for(moored, job)
    assert (ended.state, ended.error) == (JobState.FAILED, "the table was dropped")
    wait_for(moored, blocking)


@pytest.mark.parametrize(
    ("kind", "args", "words"),
    [
        ("orphans", {}, "kind 'orphans' does not exist for 'lake.sea.refused'; its kinds are compact, expire"),
        ("compact", {"target_file_size_mb": 7}, "args: Expected `int` >= 8"),
        ("compact", {"size": 7}, "args: compact jobs for lance tables have no option 'size'"),
        ("expire", {"keep_last": 0}, "args: Expected `int` >= 1"),
    ],
)
def test_wrong_options_are_refused_when_the_job_is_requested(
    lake: ServerProcess, moored: Client, kind: str, args: dict[str, Any], words: str
) -> None:
    if not any(table.name == "refused" for table in moored.namespaces.tables("lake", ["sea"])):
        Table(lake, "refused", 1)
    with pytest.raises(ClientError) as refused:
        moored.namespaces.create_job("lake", ["sea"], "refused", kind, args)
    assert words in str(refused.value)


def test_old_versions_cannot_be_cleaned_up_in_a_transaction(lake: ServerProcess) -> None:
    table = Table(lake, "guarded", 3)
    newest = table.open().version
    rows = pa.table({"id": pa.array([99], pa.int64()), "n": [9]})
    with table.lake.transaction() as transaction:
        inside = lance.write_dataset(rows, namespace_client=transaction, table_id=table.id, mode="append")
        for dataset in (inside, lance.dataset(namespace_client=transaction, table_id=table.id)):
            with pytest.raises(Exception, match="cleanup_old_versions is not possible in a transaction"):
                dataset.cleanup_old_versions(timedelta(0))
    assert table.open(version=newest).count_rows() == 30
    assert table.open().count_rows() == 31
    table.open().cleanup_old_versions(timedelta(0))
    assert table.open().count_rows() == 31
