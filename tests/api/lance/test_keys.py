"""A change under an idempotency key is carried out once."""

from __future__ import annotations

import json
from typing import Any

import httpx
import lance
import pyarrow as pa
import pytest

from moorage.core.callers import LOCAL
from moorage.core.entries import Draft, Receipt
from moorage.core.errors import TableNotFound
from moorage.core.privileges import Privilege
from moorage.datasets.messages import StagedManifest
from moorage.testing import builders as make
from moorage.testing import lance_writer as write
from moorage.usecases.lance.idempotent import KeyedLines
from moorage.usecases.lance.lookup import find_table, table_address
from moorage.usecases.lance.versions import commit_in
from moorage.usecases.ports import Errand
from tests.api.house import House, at_once, done
from tests.datasets.lines import stream_of

THREE = stream_of({"id": [1, 2, 3]})


@pytest.fixture
async def lake(house: House) -> House:
    await house.console.make("lake")
    await house.console.make("lake", "sea")
    return house


async def post(lake: House, what: str, body: bytes, *, key: str | None = None, **query: Any) -> httpx.Response:
    headers = {} if key is None else {"idempotency-key": key}
    path = f"/lance/v1/table/lake$sea$t/{what}"
    return await lake.console.http.post(path, content=body, params=query, headers=headers)


async def rows(lake: House) -> int:
    return int(done(await post(lake, "count_rows", b"")))


async def test_a_repeated_creation_returns_the_first_response_even_after_a_drop(lake: House) -> None:
    first = done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}'))
    assert done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}')) == first
    done(await post(lake, "insert", THREE))
    assert done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}')) == first
    done(await post(lake, "drop", b""))
    assert done(await post(lake, "create", THREE, key="k", properties='{"a": "1"}')) == first
    assert (await post(lake, "count_rows", b"")).status_code == 404


async def test_a_refused_creation_or_insert_stays_refused_under_its_key(lake: House) -> None:
    done(await post(lake, "create", THREE))
    refusal = await post(lake, "create", THREE, key="c")
    assert (refusal.status_code, refusal.json()["code"]) == (409, 5)
    done(await post(lake, "drop", b""))
    assert (await post(lake, "create", THREE, key="c")).json()["code"] == 5
    assert (await post(lake, "insert", THREE, key="i")).json()["code"] == 4
    done(await post(lake, "create", THREE))
    assert (await post(lake, "insert", THREE, key="i")).json()["code"] == 4
    assert await rows(lake) == 3


async def test_a_repeated_insert_adds_its_rows_once(lake: House) -> None:
    done(await post(lake, "create", THREE))
    first = done(await post(lake, "insert", THREE, key="k"))
    assert (first["version"], first["num_inserted_rows"]) == (2, 3)
    done(await post(lake, "insert", THREE))
    assert done(await post(lake, "insert", THREE, key="k")) == first
    assert await rows(lake) == 9
    refusal = await post(lake, "insert", stream_of({"id": [4]}), key="k")
    assert (refusal.status_code, refusal.json()["code"]) == (400, 13)


async def test_the_same_request_sent_concurrently_is_carried_out_once(lake: House) -> None:
    created = await at_once(*[post(lake, "create", THREE, key="c") for _ in range(3)])
    assert [each.json() for each in created] == [done(created[0])] * 3
    inserted = await at_once(*[post(lake, "insert", THREE, key="i") for _ in range(3)])
    assert [each.json() for each in inserted] == [done(inserted[0])] * 3
    assert await rows(lake) == 6


async def test_concurrent_inserts_under_different_keys_add_all_rows(lake: House) -> None:
    done(await post(lake, "create", THREE))
    answers = await at_once(*[post(lake, "insert", THREE, key=f"k{n}") for n in range(4)])
    assert sorted(done(each)["version"] for each in answers) == [2, 3, 4, 5]
    assert await rows(lake) == 15


async def test_an_insert_that_loses_a_race_retries_and_its_key_records_only_the_success(
    lake: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write.folder_of(done(await post(lake, "create", THREE))["location"])
    append = lake.ledger.append

    async def outrun(draft: Draft) -> Receipt:
        """Commit another writer's version first."""
        monkeypatch.undo()
        lance.write_dataset(pa.table({"id": [9]}), folder, mode="append")
        final = f"_versions/{write.final_name(2)}"
        table, size = commit_in(draft.changes).table, (folder / final).stat().st_size
        await append(make.draft(make.commit(table, 2, file=final, size=size), caller=draft.caller))
        return await append(draft)

    monkeypatch.setattr(lake.ledger, "append", outrun)
    first = done(await post(lake, "insert", THREE, key="k"))
    assert (first["version"], await rows(lake)) == (3, 7)
    assert done(await post(lake, "insert", THREE, key="k")) == first


async def test_a_worker_is_refused_a_table_that_replaced_its_own(lake: House) -> None:
    async def begin() -> KeyedLines:
        done(await post(lake, "create", THREE))
        address = table_address(("lake", "sea", "t"))
        table = (await find_table(lake.ports, LOCAL, address, Privilege.MODIFY))[-1]
        return KeyedLines(lake.ports, Errand(caller=LOCAL, api="lance", request="r"), address, table)

    lines = await begin()
    assert (await lines.at(None, 1)).version == 1
    done(await post(lake, "drop", b""))
    await begin()
    staged = StagedManifest(version=2, manifest_path="_versions/2.manifest")
    for asking in (lines.at(None, 1), lines.newest(None), lines.add(staged)):
        with pytest.raises(TableNotFound, match="was replaced by another table during this request"):
            await asking


ROWS = stream_of({"id": [1, 2, 3], "text": ["a", "b", "c"]})
ONE_OF_THEM = stream_of({"id": [3, 4], "text": ["C", "d"]})

CHANGES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "update": ("update", {"updates": [["text", "upper(text)"]], "predicate": "id > 1"}, {}),
    "update with properties": ("update", {"updates": [["id", "id + 1"]], "properties": {"a": "1"}}, {}),
    "merge": (
        "merge_insert",
        ONE_OF_THEM,
        {
            "on": "id",
            "when_matched_update_all": True,
            "when_not_matched_insert_all": True,
            "when_not_matched_by_source_delete": True,
        },
    ),
    "delete": ("delete", {"predicate": "id > 2"}, {}),
    "delete nothing": ("delete", {"predicate": "id > 9"}, {}),
    "restore": ("restore", {"version": 1}, {}),
    "add columns": ("add_columns", {"new_columns": [{"name": "twice", "expression": "id * 2"}]}, {}),
    "alter columns": ("alter_columns", {"alterations": [{"path": "text", "rename": "body"}]}, {}),
    "drop columns": ("drop_columns", {"columns": ["text"]}, {}),
    "schema metadata": ("schema_metadata/update", {"model": "small"}, {}),
    "field metadata": ("update_field_metadata", {"updates": [{"path": "text", "metadata": {"a": "b"}}]}, {}),
    "index": ("create_scalar_index", {"column": "id", "index_type": "BTREE", "name": "by_id"}, {}),
    "drop index": ("index/old/drop", b"", {}),
    "tag": ("tags/create", {"tag": "new", "version": 1}, {}),
    "move tag": ("tags/update", {"tag": "old", "version": 2}, {}),
    "delete tag": ("tags/delete", {"tag": "old"}, {}),
    "branch": ("branches/create", {"name": "new"}, {}),
    "delete branch": ("branches/delete", {"name": "old"}, {}),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_every_change_is_carried_out_once_under_its_key(lake: House, change: str) -> None:
    """Repeated concurrently, later, and after other changes of the same objects."""
    what, body, query = CHANGES[change]
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    done(await post(lake, "create", ROWS))
    done(await post(lake, "tags/create", b'{"tag": "old", "version": 1}'))
    done(await post(lake, "branches/create", b'{"name": "old"}'))
    done(await post(lake, "create_scalar_index", b'{"column": "id", "index_type": "BITMAP", "name": "old"}'))
    both = await at_once(*[post(lake, what, content, key="k", **query) for _ in range(2)])
    first = done(both[0])
    assert done(both[1]) == first
    then = await state(lake)
    assert done(await post(lake, what, content, key="k", **query)) == first
    assert await state(lake) == then
    done(await post(lake, "schema_metadata/update", b'{"model": "large"}'))
    done(await post(lake, "update", b'{"updates": [["id", "id + 10"]]}'))
    assert done(await post(lake, what, content, key="k", **query)) == first
    refusal = await post(lake, "delete", b'{"predicate": "true"}', key="k")
    assert (refusal.status_code, refusal.json()["code"]) == (400, 13)


async def state(lake: House) -> list[Any]:
    """The newest versions of the table and of its branches, and its tags."""
    asked = [("version/list", {"limit": "1", "descending": "true"}), ("tags/list", {}), ("branches/list", {})]
    return [done(await post(lake, what, b"", **query)) for what, query in asked]


async def test_a_refused_change_stays_refused_under_its_key(lake: House) -> None:
    done(await post(lake, "create", ROWS))
    tag = b'{"tag": "t", "version": 1}'
    done(await post(lake, "tags/create", tag))
    for what, body, code in (("tags/create", tag, 9), ("tags/delete", b'{"tag": "none"}', 8)):
        assert (await post(lake, what, body, key=what)).json()["code"] == code
    done(await post(lake, "tags/delete", b'{"tag": "t"}'))
    done(await post(lake, "tags/create", b'{"tag": "none", "version": 1}'))
    assert (await post(lake, "tags/create", tag, key="tags/create")).json()["code"] == 9
    assert (await post(lake, "tags/delete", b'{"tag": "none"}', key="tags/delete")).json()["code"] == 8


async def test_a_repeated_update_does_not_read_a_new_table_of_the_same_name(lake: House) -> None:
    done(await post(lake, "create", ROWS))
    body = b'{"updates": [["text", "\'x\'"]]}'
    assert done(await post(lake, "update", body, key="k"))["updated_rows"] == 3
    done(await post(lake, "drop", b""))
    done(await post(lake, "create", ONE_OF_THEM))
    assert done(await post(lake, "update", body))["version"] == 2
    refusal = await post(lake, "update", body, key="k")
    assert (refusal.status_code, refusal.json()["code"]) == (404, 4)
