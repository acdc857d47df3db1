"""Shares: their objects, their names and their recipients, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.ledger.postgres import PostgresLedger
from tests.api.house import House, done, open_house
from tests.api.unity.unity import Unity, invalid, refused


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def house(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[House]:
    ledger = None
    if request.param == "postgres":
        ledger = await PostgresLedger.open(request.getfixturevalue("database_url"))
    async with open_house(tmp_path / "data", ledger=ledger) as house:
        yield house


@pytest.fixture
async def uc(house: House) -> Unity:
    """A catalog with two tables in lake.s, and the empty share `fish`."""
    uc = Unity(house.console.http)
    await uc.schema()
    for name in ("t", "u"):
        await uc.external(name)
    done(await uc.post("/shares", {"name": "fish"}))
    return uc


def update(action: str, name: str, **given: Any) -> dict[str, Any]:
    return {"action": action, "data_object": {"name": name, **given}}


async def change(uc: Unity, *updates: dict[str, Any], share: str = "fish", **given: Any) -> httpx.Response:
    return await uc.patch(f"/shares/{share}", {"updates": list(updates), **given})


async def shared(uc: Unity, share: str = "fish") -> list[str]:
    found = done(await uc.get(f"/shares/{share}", include_shared_data="true"))
    return [each["shared_as"] for each in found["objects"]]


async def test_a_share_is_created_changed_and_deleted(uc: Unity) -> None:
    made = done(await uc.post("/shares", {"name": "Crabs", "comment": "c", "display_name": "All crabs"}))
    assert (made["name"], made["comment"], made["display_name"], made["owner"]) == ("Crabs", "c", "All crabs", "local")
    assert done(await uc.get("/shares/CRABS")) == made
    listed = done(await uc.get("/shares"))
    assert [each["name"] for each in listed["shares"]] == ["Crabs", "fish"]
    assert listed["next_page_token"] is None
    after = done(await uc.patch("/shares/crabs", {"new_name": "prawns", "properties": {"k": "v"}}))
    assert (after["name"], after["id"]) == ("prawns", made["id"])
    assert (after["comment"], after["properties"], after["objects"]) == ("c", {"k": "v"}, [])
    done(await uc.delete("/shares/prawns"))
    assert refused(await uc.get("/shares/prawns"), 404, "NOT_FOUND") == "share 'prawns' does not exist"
    done(await uc.post("/shares", {"name": "prawns"}))


async def test_shares_are_listed_in_pages(uc: Unity) -> None:
    for n in range(4):
        done(await uc.post("/shares", {"name": f"s{n}"}))
    names, token = [], ""
    while True:
        page = done(await uc.get("/shares", max_results=2, page_token=token))
        names.append([each["name"] for each in page["shares"]])
        token = page["next_page_token"]
        if token is None:
            break
    assert names == [["fish", "s0"], ["s1", "s2"], ["s3"]]


async def test_a_taken_name_is_refused(uc: Unity) -> None:
    answer = await uc.post("/shares", {"name": "FISH"})
    assert refused(answer, 400, "RESOURCE_ALREADY_EXISTS") == "share 'FISH' already exists"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a.b", "a\x7f", "a\n", "n" * 256])
async def test_a_share_that_no_client_could_address_is_refused(uc: Unity, name: str) -> None:
    invalid(await uc.post("/shares", {"name": name}))
    invalid(await uc.patch("/shares/fish", {"new_name": name}))


@pytest.mark.parametrize(
    "given",
    [
        {"comment": "c" * 65_537},
        {"display_name": "d" * 256},
        {"properties": {f"k{n}": "" for n in range(51)}},
        {"properties": {"k" * 256: ""}},
        {"properties": {"k": "v" * 1_001}},
    ],
)
async def test_texts_that_clients_would_truncate_are_refused(uc: Unity, given: dict[str, Any]) -> None:
    assert "at most" in invalid(await uc.post("/shares", {"name": "x", **given}))
    assert "at most" in invalid(await uc.patch("/shares/fish", given))


async def test_objects_are_added_changed_and_removed_in_one_step(uc: Unity) -> None:
    after = done(
        await change(
            uc,
            update("ADD", "lake.s.t", data_object_type="TABLE", history_data_sharing_status="ENABLED", comment="c"),
            update("ADD", "lake.s.u", shared_as="other.Name", start_version=3),
            comment="both",
        )
    )
    assert after["comment"] == "both"
    first, second = sorted(after["objects"], key=lambda each: str(each["name"]))
    assert first | {"added_at": 0} == {
        "name": "lake.s.t",
        "data_object_type": "TABLE",
        "shared_as": "s.t",
        "comment": "c",
        "added_at": 0,
        "added_by": "local",
        "history_data_sharing_status": "ENABLED",
        "cdf_enabled": True,
        "partitions": [],
        "start_version": None,
        "status": "ACTIVE",
    }
    assert (second["shared_as"], second["start_version"]) == ("other.Name", 3)
    assert (second["history_data_sharing_status"], second["cdf_enabled"]) == ("DISABLED", False)
    after = done(
        await change(
            uc,
            update("UPDATE", "lake.s.t", history_data_sharing_status="DISABLED", shared_as="x.y"),
            update("REMOVE", "lake.s.u"),
        )
    )
    [only] = after["objects"]
    assert (only["shared_as"], only["cdf_enabled"], only["comment"]) == ("x.y", False, "c")
    done(await change(uc, update("REMOVE", "lake.s.t", shared_as="x.y"), update("ADD", "lake.s.u", shared_as="x.y")))
    assert await shared(uc) == ["x.y"]


async def test_one_wrong_update_changes_nothing(uc: Unity) -> None:
    answer = await change(uc, update("ADD", "lake.s.t"), update("ADD", "lake.s.absent"), comment="c")
    refused(answer, 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")
    found = done(await uc.get("/shares/fish", include_shared_data="true"))
    assert (found["objects"], found["comment"]) == ([], None)


@pytest.mark.parametrize(
    ("data_object", "status", "words"),
    [
        ({"name": "lake.s"}, 200, ""),
        ({"name": "lake.s", "data_object_type": "TABLE"}, 400, "does not have the form catalog.schema.table"),
        ({"name": "lake.s.t", "data_object_type": "SCHEMA"}, 400, "does not have the form catalog.schema"),
        ({"name": "lake.s.t", "data_object_type": "VIEW"}, 400, "cannot be shared; share a TABLE or a SCHEMA"),
        ({"name": "lake.s.t", "data_object_type": "THING"}, 400, "does not exist; use TABLE or SCHEMA"),
        ({"name": "lake.s.csv"}, 400, "has the format csv, which cannot be shared"),
        ({"name": "lake.none"}, 404, "schema 'lake.none' does not exist"),
        ({"name": "lake.s.t", "shared_as": "t"}, 400, "does not have the form schema.table"),
        ({"name": "lake.s.t", "shared_as": "a b.t"}, 400, "contains a dot, a space or a slash"),
        ({"name": "lake.s.t", "shared_as": "a." + "t" * 256}, 400, "at most 255"),
        ({"name": "lake.s", "partitions": [{"values": [{"name": "d"}]}]}, 400, "only for tables"),
        ({"name": "lake.s", "start_version": 1}, 400, "only for tables"),
        ({"name": "lake.s.t", "partitions": [{"values": []}]}, 400, "would share all rows"),
        ({"name": "lake.s.t", "comment": "c" * 65_537}, 400, "at most 65536"),
    ],
)
async def test_what_cannot_be_shared_is_refused_with_a_reason(
    uc: Unity, data_object: dict[str, Any], status: int, words: str
) -> None:
    await uc.external("csv", data_source_format="CSV", columns=[])
    answer = await change(uc, {"action": "ADD", "data_object": data_object})
    assert answer.status_code == status, answer.text
    assert words in answer.text


async def test_a_view_cannot_be_shared(house: House, uc: Unity) -> None:
    representations = [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}]
    version = {"version-id": 1, "timestamp-ms": 0, "schema-id": 0, "summary": {}, "representations": representations}
    schema = {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "int", "required": False}]}
    view = {"name": "v", "schema": schema, "view-version": {**version, "default-namespace": ["s"]}, "properties": {}}
    done(await house.console.http.post("/iceberg/v1/lake/namespaces/s/views", json=view))
    answer = await change(uc, update("ADD", "lake.s.v"))
    assert answer.status_code == 400, answer.text
    assert "'lake.s.v' is a view, which cannot be shared, because this server does not compute rows" in answer.text


async def test_a_filter_must_name_partition_columns(uc: Unity) -> None:
    column = {"type_text": "string", "type_name": "STRING", "type_json": '"string"'}
    columns = [
        {"name": "id", "position": 0, **column},
        {"name": "region", "position": 1, "partition_index": 0, **column},
    ]
    await uc.external("parted", columns=columns)

    def by(name: str) -> dict[str, Any]:
        value = {"name": name, "op": "EQUAL", "value": "eu", "recipient_property_key": None}
        return {"partitions": [{"values": [value]}]}

    answer = await change(uc, update("ADD", "lake.s.parted", **by("id")))
    assert "'id' is not a partition column; the partition columns are region" in invalid(answer)
    after = done(await change(uc, update("ADD", "lake.s.parted", **by("region"))))
    assert after["objects"][0]["partitions"] == by("region")["partitions"]


async def test_a_name_is_used_once_in_a_share(uc: Unity) -> None:
    done(await change(uc, update("ADD", "lake.s.t")))
    for wrong in (
        update("ADD", "lake.s.t"),
        update("ADD", "lake.s.u", shared_as="S.T"),
        update("ADD", "lake.s"),
        update("ADD", "lake.s", shared_as="S"),
    ):
        assert "already contains 's.t'" in refused(await change(uc, wrong), 400, "RESOURCE_ALREADY_EXISTS")
    answer = await change(uc, update("ADD", "lake.s.u", shared_as="a.b"), update("ADD", "lake.s.u", shared_as="A.B"))
    refused(answer, 400, "RESOURCE_ALREADY_EXISTS")
    assert await shared(uc) == ["s.t"]


async def test_a_schema_of_a_share_is_whole_or_has_single_tables(uc: Unity) -> None:
    done(await change(uc, update("ADD", "lake.s", shared_as="all")))
    answer = await change(uc, update("ADD", "lake.s.t", shared_as="all.t"))
    assert "already contains 'all'" in refused(answer, 400, "RESOURCE_ALREADY_EXISTS")
    done(await change(uc, update("REMOVE", "lake.s"), update("ADD", "lake.s.t", shared_as="all.t")))
    answer = await change(uc, update("UPDATE", "lake.s.t", shared_as="s.t"), update("ADD", "lake.s"))
    assert "already contains 's.t'" in refused(answer, 400, "RESOURCE_ALREADY_EXISTS")
    done(await change(uc, update("REMOVE", "lake.s.t"), update("ADD", "lake.s", shared_as="all")))
    assert await shared(uc) == ["all"]


async def test_a_renamed_or_dropped_table_can_be_removed_by_its_name(uc: Unity) -> None:
    done(await change(uc, update("ADD", "lake.s.t"), update("ADD", "lake.s.u")))
    done(await uc.patch("/tables/lake.s.t", {"new_name": "renamed"}))
    done(await uc.delete("/tables/lake.s.u"))
    found = done(await uc.get("/shares/fish", include_shared_data="true"))["objects"]
    assert [(each["name"], each["shared_as"], each["status"]) for each in found] == [
        ("lake.s.renamed", "s.t", "ACTIVE"),
        ("lake.s.u", "s.u", "PERMISSION_DENIED"),
    ]
    done(await change(uc, update("REMOVE", "lake.s.renamed"), update("REMOVE", "lake.s.u")))
    assert await shared(uc) == []


async def test_another_table_under_a_former_name_is_not_taken_for_the_shared_one(uc: Unity) -> None:
    done(await change(uc, update("ADD", "lake.s.t")))
    done(await uc.patch("/tables/lake.s.t", {"new_name": "renamed"}))
    await uc.external("t", "file:///lakes/second")
    refused(await change(uc, update("REMOVE", "lake.s.t")), 404, "NOT_FOUND")
    refused(await change(uc, update("UPDATE", "lake.s.t", comment="c")), 404, "NOT_FOUND")
    refused(await change(uc, update("ADD", "lake.s.t")), 400, "RESOURCE_ALREADY_EXISTS")


async def test_a_dropped_table_is_removed_by_its_name_although_another_table_has_it(uc: Unity) -> None:
    done(await change(uc, update("ADD", "lake.s.t")))
    done(await uc.delete("/tables/lake.s.t"))
    await uc.external("t", "file:///lakes/second")
    refused(await change(uc, update("ADD", "lake.s.t")), 400, "RESOURCE_ALREADY_EXISTS")
    done(await change(uc, update("REMOVE", "lake.s.t"), update("ADD", "lake.s.t")))
    (found,) = done(await uc.get("/shares/fish", include_shared_data="true"))["objects"]
    assert (found["name"], found["status"]) == ("lake.s.t", "ACTIVE")


async def test_removing_what_is_not_shared_is_refused(uc: Unity) -> None:
    answer = await change(uc, update("REMOVE", "lake.s.t"))
    assert refused(answer, 404, "NOT_FOUND") == "table 'lake.s.t' is not in share 'fish'"


async def test_a_request_changes_up_to_999_objects(uc: Unity) -> None:
    many = [update("ADD", "lake.s.t", shared_as=f"s{n // 10}.t{n}") for n in range(999)]
    assert "at most 999 updates" in invalid(await change(uc, *many, update("ADD", "lake.s.u")))
    done(await change(uc, *many))
    assert len(await shared(uc)) == 999
    done(await change(uc, *[update("REMOVE", "lake.s.t", shared_as=f"s{n // 10}.t{n}") for n in range(999)]))
    assert await shared(uc) == []


async def test_concurrent_changes_of_a_share_are_all_made(uc: Unity) -> None:
    answers = await asyncio.gather(*[change(uc, update("ADD", "lake.s.t", shared_as=f"a.t{n}")) for n in range(12)])
    assert [answer.status_code for answer in answers] == [200] * 12
    assert len(await shared(uc)) == 12
    raced = await asyncio.gather(
        *[change(uc, update("ADD", "lake.s", shared_as="one")) for _ in range(4)],
        *[change(uc, update("ADD", "lake.s.t", shared_as="one.t")) for _ in range(4)],
    )
    assert sorted(answer.status_code for answer in raced) == [200] + [400] * 7


async def test_a_retried_update_is_made_once(uc: Unity) -> None:
    body = {"updates": [update("ADD", "lake.s.t")]}
    first = done(await uc.patch("/shares/fish", body, key="k"))
    assert done(await uc.patch("/shares/fish", body, key="k")) == first


async def test_a_share_is_granted_and_revoked(uc: Unity) -> None:
    for name in ("a", "b", "c"):
        done(await uc.post("/recipients", {"name": name}))
    grants = [{"principal": name, "add": ["SELECT"]} for name in ("A", "b")]
    after = done(await uc.patch("/shares/fish/permissions", {"changes": grants}))
    assert after == {
        "privilege_assignments": [{"principal": name, "privileges": ["SELECT"]} for name in ("a", "b")],
        "next_page_token": None,
    }
    assert done(await uc.get("/shares/fish/permissions")) == after
    done(await uc.patch("/shares/fish/permissions", {"changes": grants}))
    changes = [{"principal": "a", "remove": ["SELECT"]}, {"principal": "c", "add": ["select"]}]
    done(await uc.patch("/shares/fish/permissions", {"changes": changes}))
    found = done(await uc.get("/shares/fish/permissions"))["privilege_assignments"]
    assert [each["principal"] for each in found] == ["b", "c"]
    assert done(await uc.get("/recipients/B/share-permissions")) == {
        "permissions_out": [
            {"share_name": "fish", "privilege_assignments": [{"principal": "b", "privileges": ["SELECT"]}]}
        ]
    }
    assert done(await uc.get("/recipients/a/share-permissions")) == {"permissions_out": []}
    done(await uc.delete("/shares/fish"))
    assert done(await uc.get("/recipients/b/share-permissions")) == {"permissions_out": []}


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"principal": "absent", "add": ["SELECT"]}, 404, "recipient 'absent' does not exist"),
        ({"principal": "a", "add": ["MODIFY"]}, 400, "'MODIFY' is not a privilege on a share; use SELECT"),
        ({"principal": "a"}, 400, "must either add or remove SELECT"),
        ({"principal": "a", "add": ["SELECT"], "remove": ["SELECT"]}, 400, "must either add or remove SELECT"),
        ({"principal": "", "add": ["SELECT"]}, 400, "principal is empty"),
    ],
)
async def test_a_wrong_grant_changes_nothing(uc: Unity, given: dict[str, Any], status: int, words: str) -> None:
    done(await uc.post("/recipients", {"name": "a"}))
    answer = await uc.patch("/shares/fish/permissions", {"changes": [{"principal": "a", "add": ["SELECT"]}, given]})
    assert answer.status_code == status, answer.text
    assert words in answer.text
    assert done(await uc.get("/shares/fish/permissions"))["privilege_assignments"] == []


async def test_concurrent_grants_to_one_recipient_are_all_made(uc: Unity) -> None:
    done(await uc.post("/recipients", {"name": "a"}))
    for n in range(8):
        done(await uc.post("/shares", {"name": f"s{n}"}))
    grant = {"changes": [{"principal": "a", "add": ["SELECT"]}]}
    answers = await asyncio.gather(*[uc.patch(f"/shares/s{n}/permissions", grant) for n in range(8)])
    assert [answer.status_code for answer in answers] == [200] * 8
    found = done(await uc.get("/recipients/a/share-permissions"))["permissions_out"]
    assert [each["share_name"] for each in found] == [f"s{n}" for n in range(8)]


async def test_a_caller_who_cannot_read_a_table_cannot_share_it(house: House, uc: Unity) -> None:
    house.access.locked_out.add("eve")
    for answer in (
        await uc.post("/shares", {"name": "x"}, caller="eve"),
        await uc.patch("/shares/fish", {"updates": [update("ADD", "lake.s.t")]}, caller="eve"),
        await uc.patch("/shares/fish/permissions", {"changes": []}, caller="eve"),
        await uc.post("/recipients", {"name": "x"}, caller="eve"),
    ):
        refused(answer, 403, "PERMISSION_DENIED")
