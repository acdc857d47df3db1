"""The Python client against a real server."""

from uuid import uuid4

import pytest

from moorage.client import Client, ClientError
from moorage.client.operations import CreateNamespace, Drop, Operation, Rename, SetProperties
from moorage.core.errors import Advice


@pytest.fixture
def lake(client: Client) -> str:
    """A catalog for this test only."""
    return client.catalogs.create(f"lake-{uuid4().hex}").name


def test_a_catalog_is_created_described_renamed_dropped_and_undropped(client: Client) -> None:
    name = f"c-{uuid4().hex}"
    created = client.catalogs.create(name, comment="new", properties={"a": "1", "b": "2"})
    assert (created.kind, created.comment, created.revision) == ("catalog", "new", 1)
    after = client.catalogs.describe(name, comment=None, set_properties={"c": "3"}, remove_properties=["a"])
    assert (after.comment, after.properties) == (None, {"b": "2", "c": "3"})
    assert client.catalogs.rename(name, f"{name}-2").id == created.id
    dropped = client.catalogs.drop(f"{name}-2")
    assert dropped.purge_at_ms is not None
    assert created.id in [one.id for one in client.dropped.list("catalog")]
    assert client.dropped.undrop("catalog", created.id, new_name=name).name == name
    assert client.catalogs.get(name).properties == {"b": "2", "c": "3"}


def test_namespaces_of_any_depth_are_found_by_their_path(client: Client, lake: str) -> None:
    client.namespaces.create(lake, ("a",))
    deep = client.namespaces.create(lake, ("a", "b"), properties={"k": "v"})
    assert client.namespaces.get(lake, ("A", "B")).id == deep.id
    assert [one.name for one in client.namespaces.list(lake, ("a",))] == ["b"]
    assert client.namespaces.describe(lake, ("a", "b"), comment="deep").comment == "deep"
    assert client.namespaces.rename(lake, ("a", "b"), "c").name == "c"
    assert list(client.namespaces.tables(lake, ("a", "c"))) == []
    with pytest.raises(ClientError) as refused:
        client.namespaces.drop(lake, ("a",))
    assert (refused.value.code, refused.value.status) == ("NOT_EMPTY", 409)
    client.namespaces.drop(lake, ("a",), cascade=True)
    assert [one.name for one in client.dropped.list("namespace", lake)] == ["a"]
    assert list(client.namespaces.list(lake)) == []


@pytest.mark.parametrize(
    "name", [".", "..", "a/b", "a b", "%41", "a:rename", "q?x=1#f", "Größe 🌊", "+", "\\", "'\"", "a;b", "a" * 255]
)
def test_every_name_survives_percent_encoding_in_a_url(client: Client, lake: str, name: str) -> None:
    client.namespaces.create(lake, (name,))
    client.namespaces.create(lake, (name, name))
    assert client.namespaces.get(lake, (name,)).name == name
    assert client.namespaces.get(lake, (name, name)).name == name
    assert client.namespaces.rename(lake, (name, name), "plain").name == "plain"
    assert [one.name for one in client.namespaces.list(lake, (name,))] == ["plain"]


def test_a_long_list_is_returned_completely_over_several_pages(client: Client, lake: str) -> None:
    for hundred in range(3):
        names = [f"n{hundred}{number:02}" for number in range(100)]
        client.transact([CreateNamespace(path=(lake, name)) for name in names])
    all_names = [f"n{number:03}" for number in range(300)]
    assert [one.name for one in client.namespaces.list(lake)] == all_names
    for hundred in range(3):
        client.transact([Drop(kind="namespace", path=(lake, name)) for name in all_names[hundred * 100 :][:100]])
    assert sorted(one.name for one in client.dropped.list("namespace", lake)) == all_names


def test_a_transaction_applies_all_operations_or_none(client: Client, lake: str) -> None:
    before = client.health().seq
    done = client.transact([CreateNamespace(path=(lake, "a")), CreateNamespace(path=(lake, "b"))])
    assert (done.seq, len(done.ids)) == (before + 1, 2)
    steps: list[Operation] = [
        Rename(kind="namespace", path=(lake, "a"), to=(lake, "c")),
        SetProperties(kind="catalog", path=(lake,), properties={"k": "v"}),
        Drop(kind="namespace", path=(lake, "missing")),
    ]
    with pytest.raises(ClientError) as refused:
        client.transact(steps)
    assert refused.value.details["operation"] == 2
    assert [one.name for one in client.namespaces.list(lake)] == ["a", "b"]
    client.transact(steps[:2])
    assert [one.name for one in client.namespaces.list(lake)] == ["b", "c"]


def test_an_error_carries_the_message_and_advice_of_the_server(client: Client, lake: str) -> None:
    with pytest.raises(ClientError) as taken:
        client.catalogs.create(lake.upper())
    assert (taken.value.code, taken.value.status, taken.value.advice) == ("NAME_TAKEN", 409, Advice.AFTER_REFRESH)
    assert lake.upper() in taken.value.message
    assert taken.value.request_id
    with pytest.raises(ClientError) as wrong:
        client.catalogs.create("")
    assert (wrong.value.status, wrong.value.field, wrong.value.advice) == (400, "name", Advice.NEVER)


def test_jobs_are_listed_by_state_and_recorded_in_the_feed(client: Client) -> None:
    job = client.jobs.create("audit")
    assert [one.id for one in client.jobs.list(state=job.state, kind="audit")] == [job.id]
    last = client.feed.page(client.health().seq - 1).entries[0]
    assert [one["id"] for one in last.jobs] == [job.id]
    assert client.jobs.cancel(job.id).state == "cancelled"
    assert client.jobs.take("w", ["audit"]) is None
