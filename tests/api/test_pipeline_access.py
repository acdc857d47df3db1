"""Pipelines of a server with authentication: who may see, run, change and drop one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.client import Client, ClientError
from moorage.core.entries import JobState
from moorage.testing.server import ServerProcess
from tests.conformance.guarded_lakes import administrator_of

FILES = {"spark-pipeline.yml": "name: daily\n"}
DAILY = ("lake", ["sea"], "daily")
ANN = "ann@example.com"


class Yard:
    """A server with the pipeline `lake.sea.daily` of the administrator, and a user without any grant."""

    def __init__(self, admin: Client, user: Client) -> None:
        self.admin, self.user = admin, user
        admin.catalogs.create("lake")
        admin.namespaces.create("lake", ["sea"])
        admin.pipelines.register(*DAILY, FILES)

    def grant(self, kind: str, name: str, *privileges: str) -> None:
        self.admin.access.change_grants(kind, name, ANN, add=privileges)


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with ServerProcess(tmp_path / "data", flags=["--auth", "on"]) as server:
        token = administrator_of(server)
        with Client(server.url, token=token) as admin:
            admin.access.create("Users", ANN)
            with Client(server.url, token=admin.access.create_token(ANN).token) as user:
                yield Yard(admin, user)


def test_a_user_who_may_only_read_tables_can_neither_run_nor_change_nor_stop_a_pipeline(yard: Yard) -> None:
    with pytest.raises(ClientError) as unseen:
        yard.user.pipelines.run(*DAILY)
    assert unseen.value.status == 404, "its existence is not disclosed"
    yard.grant("catalog", "lake", "USE CATALOG", "USE SCHEMA", "SELECT")
    job = yard.admin.pipelines.run(*DAILY)
    for act in (
        lambda: yard.user.pipelines.run(*DAILY),
        lambda: yard.user.pipelines.register(*DAILY, {**FILES, "a.sql": "SELECT 1"}),
        lambda: yard.user.pipelines.drop(*DAILY),
        lambda: yard.user.jobs.cancel(job.id),
        lambda: yard.user.jobs.retry(job.id),
    ):
        with pytest.raises(ClientError) as refused:
            act()
        assert refused.value.status in (403, 404), refused.value
    assert yard.admin.jobs.get(job.id).state is JobState.QUEUED
    assert yard.admin.pipelines.get(*DAILY).revision == 1


def test_a_grant_on_a_pipeline_lets_a_user_run_it_and_another_one_lets_it_be_changed(yard: Yard) -> None:
    yard.grant("catalog", "lake", "USE CATALOG", "USE SCHEMA")
    yard.grant("pipeline", "lake.sea.daily", "EXECUTE")
    job = yard.user.pipelines.run(*DAILY)
    assert yard.user.jobs.get(job.id).state is JobState.QUEUED
    changed = {**FILES, "a.sql": "SELECT 1"}
    with pytest.raises(ClientError) as refused:
        yard.user.pipelines.register(*DAILY, changed)
    assert refused.value.status == 403
    assert "MODIFY on pipeline 'daily'" in refused.value.message
    yard.grant("pipeline", "lake.sea.daily", "MODIFY")
    assert yard.user.pipelines.register(*DAILY, changed).files == changed
    assert yard.user.jobs.cancel(job.id).state is JobState.CANCELLED
    with pytest.raises(ClientError) as undropped:  # that is for owners
        yard.user.pipelines.drop(*DAILY)
    assert undropped.value.status == 403


def test_a_user_who_may_create_tables_registers_and_owns_a_pipeline(yard: Yard) -> None:
    yard.grant("catalog", "lake", "USE CATALOG", "USE SCHEMA")
    with pytest.raises(ClientError) as refused:
        yard.user.pipelines.register("lake", ["sea"], "mine", FILES)
    assert refused.value.status == 403
    yard.grant("schema", "lake.sea", "CREATE TABLE")
    assert yard.user.pipelines.register("lake", ["sea"], "mine", FILES).owner == ANN
    assert yard.user.pipelines.drop("lake", ["sea"], "mine").dropped_at_ms is not None
