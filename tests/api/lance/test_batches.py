"""Several changes in one entry: all or nothing, and each sees the changes before it."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest

from moorage.testing import lance_writer as write
from tests.api.house import House, done
from tests.api.lance.lake import LanceClient, create, declare, delete, deregister, refused

NAMES = [f"lake$sea$t{n}" for n in range(5)]


@pytest.fixture
async def tables(lake: LanceClient) -> dict[str, str]:
    """Five tables at version 1, with their locations."""
    found = {name: await lake.declare(name) for name in NAMES}
    for name, location in found.items():
        await lake.grow(name, location, 1)
    return found


async def heads(lake: LanceClient) -> list[int]:
    return [(await lake.versions(name))[0] for name in NAMES]


async def test_five_tables_get_a_version_in_one_entry(lake: LanceClient, tables: dict[str, str], house: House) -> None:
    seq = await house.console.seq()
    staged = {name: write.stage(location, 2) for name, location in tables.items()}
    answer = done(await lake.commit(*[create(name, each) for name, each in staged.items()]))
    assert await house.console.seq() == seq + 1
    assert answer["transaction_id"] == str(seq + 1)
    versions = [result["create_table_version"]["version"] for result in answer["results"]]
    assert [each["e_tag"] for each in versions] == [each["e_tag"] for each in staged.values()]
    assert all(each["manifest_path"].endswith(write.final_name(2)) for each in versions)
    assert await heads(lake) == [2] * 5
    described = done(await lake.ask(f"/transaction/{answer['transaction_id']}/describe"))
    assert described["status"].lower() == "succeeded"


async def test_a_conflict_on_the_third_table_leaves_all_five_unchanged(
    lake: LanceClient, tables: dict[str, str], house: House
) -> None:
    operations = [create(name, write.stage(location, 2)) for name, location in tables.items()]
    await lake.grow(NAMES[2], tables[NAMES[2]], 2)
    seq = await house.console.seq()
    refused(await lake.commit(*operations), 409, 14, "operations[2].version", "version 2 is taken")
    assert await house.console.seq() == seq
    assert await heads(lake) == [1, 1, 2, 1, 1]
    assert [await lake.versions(name) for name in NAMES] == [[1], [1], [2, 1], [1], [1]]


async def test_each_item_sees_the_effects_of_earlier_items(
    lake: LanceClient, tables: dict[str, str], house: House
) -> None:
    new = done(await lake.table("lake$sea$new", "stage"))["location"]
    seq, t, u = await house.console.seq(), NAMES[0], NAMES[1]
    answer = done(
        await lake.commit(
            declare("lake$sea$new", location=new, properties={"owner": "ann"}),
            create("lake$sea$new", write.stage(new, 1)),
            create("lake$sea$new", write.stage(new, 2)),
            create(t, write.stage(tables[t], 2)),
            create(t, write.stage(tables[t], 3)),
            delete(t, (1, 3)),
            delete(t, (0, -1)),
            create(t, write.stage(tables[t], 4)),
            deregister(u),
            declare(u),
            delete(NAMES[2], (5, 9)),
            declare("lake$sea$brief"),
            deregister("lake$sea$brief"),
        )
    )
    assert await house.console.seq() == seq + 1
    kinds = [next(iter(result)) for result in answer["results"]]
    assert kinds == (
        ["declare_table"] + ["create_table_version"] * 4 + ["delete_table_versions"] * 2 + ["create_table_version"]
        + ["deregister_table", "declare_table", "delete_table_versions", "declare_table", "deregister_table"]
    )  # fmt: skip
    results = [next(iter(result.values())) for result in answer["results"]]
    assert (results[0]["location"], results[0]["properties"]) == (new, {"owner": "ann"})
    assert [results[n]["deleted_count"] for n in (5, 6, 10)] == [2, 1, 0]
    assert results[8] == {"id": u.split("$"), "location": tables[u], "properties": {}}
    assert results[9]["location"] not in ("", tables[u])
    assert await lake.versions("lake$sea$new") == [2, 1]
    assert await lake.versions(t) == [4]
    assert await lake.versions(u) == []
    refused(await lake.table("lake$sea$brief", "describe"), 404, 4)


async def test_a_retried_batch_that_creates_a_version_returns_the_first_response(
    lake: LanceClient, tables: dict[str, str], house: House
) -> None:
    t, u = NAMES[0], NAMES[1]
    operations = (
        declare("lake$sea$new"),
        create(t, write.stage(tables[t], 2)),
        delete(t, (0, 2)),
        deregister(u),
        create(NAMES[2], write.stage(tables[NAMES[2]], 2)),
    )
    first = done(await lake.commit(*operations))
    seq = await house.console.seq()
    await lake.grow(t, tables[t], 3)
    again = await asyncio.gather(*[lake.commit(*operations) for _ in range(3)])
    assert [done(answer) for answer in again] == [first] * 3
    assert await house.console.seq() == seq + 1


@pytest.mark.parametrize("beside", [[], [declare("lake$sea$new")]], ids=["versions alone", "beside a new table"])
async def test_a_retried_batch_returns_the_first_response_after_its_tables_are_dropped(
    lake: LanceClient, tables: dict[str, str], house: House, beside: list[Any]
) -> None:
    operations = [*beside, *[create(name, write.stage(location, 2)) for name, location in tables.items()]]
    first = done(await lake.commit(*operations))
    done(await lake.commit(deregister(NAMES[0]), delete(NAMES[1], (0, -1))))
    done(await lake.table(NAMES[2], "drop"))
    done(await lake.table(NAMES[3], "rename", {"new_table_name": "moved"}))
    seq = await house.console.seq()
    assert done(await lake.commit(*operations)) == first
    assert await house.console.seq() == seq


async def test_an_existing_version_is_returned_even_if_the_batch_deletes_it(
    lake: LanceClient, tables: dict[str, str]
) -> None:
    t = NAMES[0]
    staged = write.stage(tables[t], 2)
    alone = done(await lake.create(t, staged))["version"]
    refused(await lake.commit(delete(t, (2, 3)), create(t, staged)), 409, 14, "operations[1].version")
    assert await lake.versions(t) == [2, 1]
    results = done(await lake.commit(create(t, staged), delete(t, (2, 3))))["results"]
    assert results[0]["create_table_version"]["version"] == alone
    assert results[1]["delete_table_versions"]["deleted_count"] == 1
    assert await lake.versions(t) == [1]


async def test_an_existing_version_does_not_prevent_the_other_versions_of_a_batch(
    lake: LanceClient, tables: dict[str, str], house: House
) -> None:
    """A client that does not know the outcome of one version may send it with others: its manifest name is unique."""
    staged = {name: write.stage(location, 2) for name, location in tables.items()}
    alone = done(await lake.create(NAMES[1], staged[NAMES[1]]))["version"]
    seq = await house.console.seq()
    operations = [create(name, each) for name, each in staged.items()]
    answer = done(await lake.commit(*operations))
    assert answer["transaction_id"] == str(seq + 1)
    assert answer["results"][1]["create_table_version"]["version"] == alone
    assert await heads(lake) == [2] * 5
    assert done(await lake.commit(*operations)) == answer
    assert await house.console.seq() == seq + 1


@pytest.mark.parametrize("beside", [[], [declare("lake$sea$new")]], ids=["versions alone", "beside a new table"])
async def test_the_same_batch_sent_concurrently_is_carried_out_once(
    lake: LanceClient, tables: dict[str, str], house: House, beside: list[Any]
) -> None:
    operations = [*beside, *[create(name, write.stage(tables[name], 2)) for name in NAMES]]
    seq = await house.console.seq()
    answers = await asyncio.gather(*[lake.commit(*operations) for _ in range(8)])
    assert len({answer.text for answer in answers}) == 1
    assert done(answers[0])["transaction_id"] == str(seq + 1)
    assert await house.console.seq() == seq + 1
    assert await heads(lake) == [2] * 5


async def test_a_batch_can_recreate_a_branch_that_a_client_deleted(
    lake: LanceClient, tables: dict[str, str], house: House
) -> None:
    t, location = NAMES[0], tables[NAMES[0]]
    await lake.grow(t, location, 1, 2, 3, branch="dev")
    shutil.rmtree(write.folder_of(location) / "tree")
    seq = await house.console.seq()
    refused(await lake.commit(delete(t, (0, -1), branch="dev")), 404, 22, "operations[0].branch")
    staged = [write.stage(location, version, branch="dev") for version in (1, 2)]
    done(await lake.commit(*[create(t, each) for each in staged], delete(t, (1, 2), branch="dev")))
    assert await house.console.seq() == seq + 1
    assert await lake.versions(t, branch="dev") == [2]
    refused(await lake.create(t, write.stage(location, 2, branch="dev")), 409, 14)


async def test_a_refused_batch_can_succeed_on_a_retry(lake: LanceClient, tables: dict[str, str]) -> None:
    operations = [create(name, write.stage(tables[name], 2 + (name == NAMES[3]))) for name in NAMES]
    refused(await lake.commit(*operations), 400, 13, "operations[3].version", "skips 2")
    await lake.grow(NAMES[3], tables[NAMES[3]], 2)
    done(await lake.commit(*operations))
    assert await heads(lake) == [2, 2, 2, 3, 2]


async def test_a_repeated_batch_without_a_version_is_a_new_request(lake: LanceClient) -> None:
    for _ in range(2):
        done(await lake.commit(declare("lake$sea$t")))
        refused(await lake.commit(declare("lake$sea$t")), 409, 5, "operations[0]")
        done(await lake.commit(deregister("lake$sea$t")))


async def test_an_invalid_item_is_named_and_nothing_is_written(
    lake: LanceClient, tables: dict[str, str], house: House
) -> None:
    t, good = NAMES[0], create(NAMES[1], write.stage(tables[NAMES[1]], 2))
    other = write.stage(tables[NAMES[2]], 2)
    staged = done(await lake.table("lake$sea$x", "stage"))["location"]
    seq = await house.console.seq()
    wrong: list[tuple[Any, int, int, str]] = [
        ({}, 400, 13, "operations[1]"),
        ({"declare_table": None}, 400, 13, "operations[1]"),
        ({**declare("lake$sea$x"), **deregister(t)}, 400, 13, "operations[1]"),
        (declare(t), 409, 5, "operations[1].id"),
        (declare("lake$none$x"), 404, 1, "operations[1]"),
        (declare("x"), 400, 13, "operations[1].id"),
        ({"declare_table": {"id": ["lake", "se$a", "x"]}}, 400, 13, "operations[1].id"),
        ({"declare_table": {}}, 400, 13, "operations[1].id"),
        (declare("lake$sea$x", location="nowhere"), 400, 13, "operations[1].location"),
        (declare("lake$sea$x", location=tables[t]), 400, 13, "operations[1].location"),
        (create("lake$sea$none", other), 404, 4, "operations[1]"),
        (create(t, other), 400, 13, "operations[1].manifest_path"),
        (create(t, {**write.stage(tables[t], 2), "branch": "a/../b"}), 400, 13, "operations[1].branch"),
        (create(t, {**write.stage(tables[t], 2), "naming_scheme": "V9"}), 400, 13, "operations[1].naming_scheme"),
        (delete(t, (2, 1)), 400, 13, "operations[1].ranges[0]"),
        (delete(t, (0, 1), branch="dev"), 404, 22, "operations[1].branch"),
        (deregister("lake$sea$none"), 404, 4, "operations[1]"),
    ]
    for item, status, code, field in wrong:
        refused(await lake.commit(good, item), status, code, field)
    refused(await lake.commit(), 400, 13, "operations")
    refused(await lake.commit(good, good), 409, 14, "operations[1].version")
    refused(await lake.commit(deregister(t), create(t, write.stage(tables[t], 2))), 404, 4, "operations[1]")
    refused(await lake.commit(*[deregister("lake$sea$x")] * 1001), 400, 13, "operations")
    both = [declare("lake$sea$x", location=staged), declare("lake$sea$y", location=staged)]
    refused(await lake.commit(*both), 400, 13, "operations[1].location")
    assert await house.console.seq() == seq
    assert await heads(lake) == [1] * 5


async def test_names_in_a_batch_must_not_contain_the_delimiter(lake: LanceClient) -> None:
    done(await lake.commit({"declare_table": {"id": ["lake", "sea", "a$b"]}}, delimiter="/"))
    refused(await lake.commit({"declare_table": {"id": ["lake", "sea", "c/d"]}}, delimiter="/"), 400, 13, "c/d")
    assert (await lake.look("/namespace/lake$sea/table/list"))["tables"] == ["a$b"]


async def test_versions_of_several_tables_are_created_in_one_entry(
    lake: LanceClient, tables: dict[str, str], house: House
) -> None:
    entries = [{"id": name.split("$"), **write.stage(location, 2)} for name, location in tables.items()]
    seq = await house.console.seq()
    first = done(await lake.ask("/table/version/batch-create", {"entries": entries}))
    assert first["transaction_id"] == str(seq + 1)
    assert [each["e_tag"] for each in first["versions"]] == [entry["e_tag"] for entry in entries]
    assert done(await lake.ask("/table/version/batch-create", {"entries": entries})) == first
    await lake.grow(NAMES[4], tables[NAMES[4]], 3)
    more = [{"id": name.split("$"), **write.stage(location, 3)} for name, location in tables.items()]
    refused(await lake.ask("/table/version/batch-create", {"entries": more}), 409, 14, "entries[4].version")
    refused(await lake.ask("/table/version/batch-create", {"entries": []}), 400, 13, "entries")
    assert await heads(lake) == [2, 2, 2, 2, 3]


async def test_concurrent_batches_over_the_same_tables_are_all_or_nothing(
    lake: LanceClient, tables: dict[str, str]
) -> None:
    for version in (2, 3):
        batches = [
            [create(name, write.stage(tables[name], version)) for name in order]
            for order in (NAMES, NAMES[::-1], NAMES[1:4], NAMES[:2] + NAMES[3:])
        ]
        answers = await asyncio.gather(*[lake.commit(*batch) for batch in batches])
        assert {answer.status_code for answer in answers} <= {200, 409}
        moved = [name for name in NAMES if (await lake.versions(name))[0] == version]
        assert moved in (NAMES, NAMES[1:4], NAMES[:2] + NAMES[3:])
        for name in set(NAMES) - set(moved):
            await lake.grow(name, tables[name], version)
