"""Grants, through every API: who may do what, what is hidden, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moorage.core.securables import Shelf
from moorage.testing import builders as make
from tests.api.control.guarded import CONTROL, UNITY, Guarded, open_guarded
from tests.api.house import V1, done

PERMISSIONS = f"{UNITY}/permissions"
TABLE = "lake.sea.boats"
ICEBERG = "/iceberg/v1/lake/namespaces/sea/tables"
SCHEMA: dict[str, Any] = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


async def furnish(guarded: Guarded) -> None:
    """`lake.sea` with the Iceberg tables `boats` and `nets`."""
    await guarded.run("POST", f"{UNITY}/catalogs", {"name": "lake"})
    await guarded.run("POST", f"{UNITY}/schemas", {"name": "sea", "catalog_name": "lake"})
    for name in ("boats", "nets"):
        await guarded.run("POST", ICEBERG, {"name": name, "schema": SCHEMA})


async def grant(guarded: Guarded, kind: str, name: str, principal: str, *privileges: str) -> Any:
    body = {"changes": [{"principal": principal, "add": list(privileges)}]}
    return await guarded.run("PATCH", f"{PERMISSIONS}/{kind}/{name}", body)


async def revoke(guarded: Guarded, kind: str, name: str, principal: str, *privileges: str) -> Any:
    body = {"changes": [{"principal": principal, "remove": list(privileges)}]}
    return await guarded.run("PATCH", f"{PERMISSIONS}/{kind}/{name}", body)


async def use(guarded: Guarded, principal: str) -> None:
    await grant(guarded, "catalog", "lake", principal, "USE CATALOG", "USE_SCHEMA")


def commit(version: int = 0) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {"n": str(version)}}]}


# --- reading and writing ---------------------------------------------------------------------------


async def test_a_reader_reads_and_does_not_write(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 404
    await use(guarded, "ann")
    assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 403, "it may use the schema, so it learns the reason"
    await grant(guarded, "table", TABLE, "ann", "SELECT")
    assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 200
    assert await guarded.status(ann, "GET", f"{UNITY}/tables/{TABLE}") == 200
    answer = await guarded.ask(ann, "POST", f"{ICEBERG}/boats", commit())
    assert answer.status_code == 403
    assert "MODIFY on table 'boats'" in answer.json()["error"]["message"]
    assert await guarded.status(ann, "DELETE", f"{ICEBERG}/boats") == 403
    assert await guarded.status(ann, "GET", f"{ICEBERG}/nets") == 403
    await grant(guarded, "table", TABLE, "ann", "MODIFY")
    assert await guarded.status(ann, "POST", f"{ICEBERG}/boats", commit()) == 200
    assert await guarded.status(ann, "DELETE", f"{ICEBERG}/boats") == 403, "only owners and managers drop"


@pytest.mark.parametrize("via", ["group", "nested group", "account users"])
async def test_a_grant_to_a_group_holds_for_its_members(guarded: Guarded, via: str) -> None:
    await furnish(guarded)
    await guarded.group("outer")
    await guarded.group("inner", "outer")
    ann = await guarded.user("ann", "inner")
    principal = {"group": "inner", "nested group": "outer"}.get(via, via)
    await use(guarded, principal)
    await grant(guarded, "catalog", "lake", principal, "SELECT")
    assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 200
    if via != "account users":
        await guarded.leave("inner", "ann")
        assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 404, "with the next request"


async def test_a_revoked_grant_is_gone_with_the_next_request(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    await use(guarded, "ann")
    for _ in range(3):
        await grant(guarded, "schema", "lake.sea", "ann", "SELECT")
        assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 200
        await revoke(guarded, "schema", "lake.sea", "ann", "SELECT")
        assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 403


async def test_a_revocation_holds_for_a_writer_that_has_committed(guarded: Guarded) -> None:
    """A decision is repeated while owner and grants are the same, whatever is committed."""
    await furnish(guarded)
    ann = await guarded.user("ann")
    await use(guarded, "ann")
    for version in range(3):
        await grant(guarded, "table", TABLE, "ann", "MODIFY")
        states = [await guarded.status(ann, "POST", f"{ICEBERG}/boats", commit(2 * version + n)) for n in range(2)]
        assert states == [200, 200]
        await revoke(guarded, "table", TABLE, "ann", "MODIFY")
        assert await guarded.status(ann, "POST", f"{ICEBERG}/boats", commit()) == 403
    for owner, state in (("ann", 200), ("admin", 403), ("ann", 200)):
        await guarded.run("PATCH", f"{UNITY}/tables/{TABLE}", {"owner": owner})
        states = [await guarded.status(ann, "POST", f"{ICEBERG}/boats", commit(n)) for n in (10, 11)]
        assert states == [state, state]


async def test_creators_own_what_they_create(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    new = {"name": "ropes", "schema": SCHEMA}
    assert await guarded.status(ann, "POST", ICEBERG, new) == 404
    await use(guarded, "ann")
    assert await guarded.status(ann, "POST", ICEBERG, new) == 403
    await grant(guarded, "schema", "lake.sea", "ann", "CREATE TABLE")
    assert await guarded.status(ann, "POST", ICEBERG, new) == 200
    assert await guarded.status(ann, "POST", f"{UNITY}/schemas", {"name": "x", "catalog_name": "lake"}) == 403
    assert await guarded.status(ann, "POST", f"{ICEBERG}/ropes", commit()) == 200
    assert await guarded.status(ann, "DELETE", f"{ICEBERG}/ropes") == 204
    assert await guarded.status(ann, "DELETE", f"{ICEBERG}/boats") == 403


async def test_an_owner_transfers_its_object_and_loses_it(guarded: Guarded) -> None:
    await furnish(guarded)
    ann, bob = await guarded.user("ann"), await guarded.user("bob")
    for name in ("ann", "bob"):
        await use(guarded, name)
    await guarded.run("PATCH", f"{UNITY}/schemas/lake.sea", {"owner": "ANN"})
    assert (await guarded.run("GET", f"{UNITY}/schemas/lake.sea"))["owner"] == "ann"
    assert await guarded.status(ann, "DELETE", f"{ICEBERG}/nets") == 204, "it owns the schema, and so its tables"
    assert await guarded.status(ann, "PATCH", f"{UNITY}/schemas/lake.sea", {"owner": "nobody at all"}) == 400
    assert await guarded.status(bob, "PATCH", f"{UNITY}/schemas/lake.sea", {"owner": "bob"}) == 403
    assert await guarded.status(ann, "PATCH", f"{UNITY}/schemas/lake.sea", {"owner": "bob"}) == 200
    assert await guarded.status(ann, "DELETE", f"{ICEBERG}/boats") == 403
    assert await guarded.status(bob, "DELETE", f"{ICEBERG}/boats") == 204


async def test_a_manager_grants_and_a_reader_does_not(guarded: Guarded) -> None:
    await furnish(guarded)
    ann, bob = await guarded.user("ann"), await guarded.user("bob")
    await use(guarded, "account users")
    to_ann = {"changes": [{"principal": "ann", "add": ["SELECT"]}]}
    await grant(guarded, "table", TABLE, "bob", "SELECT")
    assert await guarded.status(bob, "PATCH", f"{PERMISSIONS}/table/{TABLE}", to_ann) == 403
    await grant(guarded, "table", TABLE, "bob", "MANAGE")
    assert await guarded.status(bob, "PATCH", f"{PERMISSIONS}/table/{TABLE}", to_ann) == 200
    assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 200


# --- what is hidden --------------------------------------------------------------------------------


async def test_a_hidden_object_is_answered_exactly_as_a_missing_one(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    table = (await guarded.run("GET", f"{UNITY}/tables/{TABLE}"))["table_id"]
    missing_id = table[:-1] + ("0" if table[-1] != "0" else "1")
    pairs = [
        (f"{UNITY}/catalogs/lake", f"{UNITY}/catalogs/gone"),
        (f"{UNITY}/schemas/lake.sea", f"{UNITY}/schemas/gone.sea"),
        (f"{UNITY}/schemas/lake.sea", f"{UNITY}/schemas/lake.gone"),
        (f"{UNITY}/tables/{TABLE}", f"{UNITY}/tables/lake.sea.gone"),
        (f"{UNITY}/tables/{TABLE}", f"{UNITY}/tables/gone.sea.boats"),
        (f"{ICEBERG}/boats", f"{ICEBERG}/gone"),
        (f"{PERMISSIONS}/table/{TABLE}", f"{PERMISSIONS}/table/lake.sea.gone"),
        (f"{V1}/catalogs/lake", f"{V1}/catalogs/gone"),
        ("/iceberg/v1/lake/namespaces/sea", "/iceberg/v1/gone/namespaces/sea"),
    ]
    for there, gone in pairs:
        answers = [await guarded.ask(ann, "GET", path) for path in (there, gone)]
        assert [answer.status_code for answer in answers] == [404, 404], there
        first, second = (answer.text.replace(answer.headers["x-request-id"], "") for answer in answers)
        assert first == second.replace("gone.sea.boats", "lake.sea.boats").replace("gone", _same(there, gone)), there
    body = {"table_id": table, "operation": "READ"}
    answers = [
        await guarded.ask(ann, "POST", f"{UNITY}/temporary-table-credentials", {**body, "table_id": id})
        for id in (table, missing_id)
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].text == answers[1].text.replace(missing_id, table)


def _same(there: str, gone: str) -> str:
    """The name in a path that the other path replaces by `gone`."""
    parts = zip(there.replace("/", ".").split("."), gone.replace("/", ".").split("."), strict=True)
    return next(one for one, other in parts if one != other)


async def test_lists_show_what_a_caller_may_see_in_full_pages(guarded: Guarded) -> None:
    await furnish(guarded)
    sea = (await guarded.ledger.walk(make.path_to("lake", "sea", last=Shelf.NAMESPACE))).chain[-1]
    tables = [make.table(sea.id, f"t{n:03}", owner="boss") for n in range(60)]
    grants = [make.set_grants(table.id, ann=["SELECT"]) for n, table in enumerate(tables) if n % 7 == 3]
    await make.add(guarded.ledger, *tables, *grants)
    ann = await guarded.user("ann")
    path = f"{UNITY}/tables?catalog_name=lake&schema_name=sea"
    assert await guarded.status(ann, "GET", path) == 404
    assert (done(await guarded.ask(ann, "GET", f"{UNITY}/catalogs")))["catalogs"] == []
    await use(guarded, "ann")
    shown, token = [], ""
    for size in (4, 4, 4):
        page = done(await guarded.ask(ann, "GET", f"{path}&max_results={size}&page_token={token}"))
        shown.append([table["name"] for table in page["tables"]])
        token = page["next_page_token"]
        if not token:
            break
    assert shown == [["t003", "t010", "t017", "t024"], ["t031", "t038", "t045", "t052"], ["t059"]]
    everything = done(await guarded.ask(guarded.admin, "GET", path))["tables"]
    assert len(everything) == 62
    assert [each["name"] for each in done(await guarded.ask(ann, "GET", f"{UNITY}/catalogs"))["catalogs"]] == ["lake"]
    names = done(await guarded.ask(ann, "GET", f"{ICEBERG}?pageSize=100"))["identifiers"]
    assert names == [], "none of them is an Iceberg table"


async def test_browse_shows_names_and_no_data(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    await grant(guarded, "catalog", "lake", "ann", "BROWSE")
    tables = done(await guarded.ask(ann, "GET", f"{UNITY}/tables?catalog_name=lake&schema_name=sea"))["tables"]
    assert [table["name"] for table in tables] == ["boats", "nets"]
    assert await guarded.status(ann, "GET", f"{ICEBERG}/boats") == 403


# --- the grants themselves -------------------------------------------------------------------------


async def test_grants_are_listed_and_changed_in_one_step(guarded: Guarded) -> None:
    await furnish(guarded)
    for name in ("ann", "bob"):
        await guarded.user(name)
    await grant(guarded, "table", TABLE, "Ann", "select", "MODIFY")
    body = {
        "changes": [
            {"principal": "ann", "add": ["ALL_PRIVILEGES"], "remove": ["SELECT", "MODIFY"]},
            {"principal": "bob", "add": ["SELECT"]},
        ]
    }
    after = await guarded.run("PATCH", f"{PERMISSIONS}/table/{TABLE}", body)
    assert after == {
        "privilege_assignments": [
            {"principal": "ann", "privileges": ["ALL PRIVILEGES"]},
            {"principal": "bob", "privileges": ["SELECT"]},
        ]
    }
    assert await guarded.run("GET", f"{PERMISSIONS}/table/{TABLE}") == after
    only = await guarded.run("GET", f"{PERMISSIONS}/table/{TABLE}?principal=BOB")
    assert [each["principal"] for each in only["privilege_assignments"]] == ["bob"]
    seq = (await guarded.ledger.position()).seq
    await grant(guarded, "table", TABLE, "bob", "SELECT")
    assert (await guarded.ledger.position()).seq == seq, "what is granted already writes no entry"


async def test_effective_grants_name_their_origin_and_the_owners(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    await use(guarded, "ann")
    await grant(guarded, "catalog", "lake", "account users", "SELECT")
    await grant(guarded, "table", TABLE, "ann", "MODIFY")
    found = await guarded.run("GET", f"{UNITY}/effective-permissions/table/{TABLE}")
    lake = {"inherited_from_type": "catalog", "inherited_from_name": "lake"}
    assert found == {
        "privilege_assignments": [
            {"principal": "account users", "privileges": [{"privilege": "SELECT", **lake}]},
            {"principal": "ann", "privileges": [{"privilege": "MODIFY"}]},
        ],
        "owners": [
            {"principal": "admins", "type": "metastore", "name": "moorage"},
            {"principal": "admin", "type": "catalog", "name": "lake"},
            {"principal": "admin", "type": "schema", "name": "lake.sea"},
            {"principal": "admin", "type": "table", "name": TABLE},
        ],
    }
    await grant(guarded, "table", TABLE, "admins", "SELECT")
    own = done(await guarded.ask(ann, "GET", f"{PERMISSIONS}/table/{TABLE}"))["privilege_assignments"]
    assert [each["principal"] for each in own] == ["ann"], "without MANAGE it sees its own grants only"


async def test_mistaken_grants_are_refused(guarded: Guarded) -> None:
    await furnish(guarded)
    await guarded.user("ann")
    for kind, name, principal, privilege, reason in (
        ("table", TABLE, "eve", "SELECT", "there is no user"),
        ("table", TABLE, "ann", "USE CATALOG", "cannot be granted on a table"),
        ("table", TABLE, "ann", "OWN", "is not a privilege"),
        ("schema", "lake", "ann", "SELECT", "fewer than 2 names"),
        ("thing", "lake", "ann", "SELECT", "securable_type is one of"),
    ):
        body = {"changes": [{"principal": principal, "add": [privilege]}]}
        answer = await guarded.ask(guarded.admin, "PATCH", f"{PERMISSIONS}/{kind}/{name}", body)
        assert answer.status_code == 400
        assert reason in answer.json()["message"]


async def test_grants_on_the_metastore_hold_in_every_catalog(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    assert await guarded.status(ann, "POST", f"{UNITY}/catalogs", {"name": "pond"}) == 403
    await grant(guarded, "metastore", "main", "ann", "CREATE CATALOG", "BROWSE")
    assert await guarded.status(ann, "POST", f"{UNITY}/catalogs", {"name": "pond"}) == 200
    assert await guarded.status(ann, "GET", f"{UNITY}/tables/{TABLE}") == 200
    assert await guarded.status(ann, "DELETE", f"{UNITY}/catalogs/lake") == 403
    assert await guarded.status(ann, "DELETE", f"{UNITY}/catalogs/pond") == 200


async def test_a_deleted_user_can_lose_its_grants(guarded: Guarded) -> None:
    await furnish(guarded)
    await guarded.user("ann")
    await grant(guarded, "table", TABLE, "ann", "SELECT")
    await guarded.run("DELETE", f"{CONTROL}/scim2/Users/{guarded.ids['ann']}", status=204)
    after = await revoke(guarded, "table", TABLE, "ANN", "SELECT")
    assert after == {"privilege_assignments": []}


# --- feed and jobs ---------------------------------------------------------------------------------


async def test_the_feed_shows_the_changes_of_visible_objects(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    await use(guarded, "ann")
    await grant(guarded, "table", TABLE, "ann", "SELECT")
    await guarded.run("POST", f"{ICEBERG}/boats", commit(1))
    await guarded.run("POST", f"{ICEBERG}/nets", commit(1))
    whole = done(await guarded.ask(guarded.admin, "GET", f"{V1}/feed"))["entries"]
    seen = done(await guarded.ask(ann, "GET", f"{V1}/feed"))["entries"]
    assert [entry["seq"] for entry in seen] == [entry["seq"] for entry in whole], "the numbers have no gaps"
    assert [entry["at_ms"] for entry in seen] == [entry["at_ms"] for entry in whole]
    nets = (await guarded.run("GET", f"{UNITY}/tables/lake.sea.nets"))["table_id"]
    assert nets in str(whole)
    assert nets not in str(seen)
    assert (whole[-2]["story"], whole[-2]["caller"]) == (seen[-2]["story"], "admin")
    assert (seen[-1]["story"], seen[-1]["caller"], seen[-1]["request"]) == ({}, "", "")
    for hidden in ("token", "user", "admins", "digest"):
        assert f"'{hidden}'" not in str([entry["story"] for entry in seen])
    assert "digest" not in str([change for entry in whole for change in entry["story"]["changes"] if "kind" in change])


async def test_the_feed_shows_the_grants_of_others_to_managers_only(guarded: Guarded) -> None:
    await furnish(guarded)
    ann = await guarded.user("ann")
    await guarded.user("bob")
    await use(guarded, "ann")
    await grant(guarded, "table", TABLE, "bob", "MODIFY")
    await grant(guarded, "table", TABLE, "ann", "SELECT")
    assert (await guarded.run("GET", f"{PERMISSIONS}/table/{TABLE}"))["privilege_assignments"][1]["principal"] == "bob"

    async def told() -> list[Any]:
        entries = done(await guarded.ask(ann, "GET", f"{V1}/feed?limit=1000"))["entries"]
        changes = [change for entry in entries for change in entry["story"].get("changes", ())]
        table = next(change["id"] for change in changes if change.get("name") == "boats")
        return [change["grants"] for change in changes if change["type"] == "grants" and change["id"] == table]

    assert await told() == [{}, {"ann": ["SELECT"]}]
    await grant(guarded, "table", TABLE, "ann", "MANAGE")
    assert (await told())[:2] == [{"bob": ["MODIFY"]}, {"ann": ["SELECT"], "bob": ["MODIFY"]}]


async def test_jobs_are_shown_to_those_who_see_their_table(guarded: Guarded) -> None:
    await furnish(guarded)
    ann, worker = await guarded.user("ann"), await guarded.user("worker")
    await grant(guarded, "metastore", "main", "worker", "RUN JOBS")
    ids = [(await guarded.run("GET", f"{UNITY}/tables/lake.sea.{name}"))["table_id"] for name in ("boats", "nets")]
    jobs = [make.job("compact", subject=id, dedupe=f"compact/{id}") for id in ids]
    await guarded.ledger.append(make.draft(jobs=jobs))

    async def listed(token: str) -> list[str]:
        return [each["id"] for each in done(await guarded.ask(token, "GET", f"{V1}/jobs?max_results=1"))["items"]]

    assert await listed(ann) == []
    await use(guarded, "ann")
    await grant(guarded, "table", "lake.sea.nets", "ann", "SELECT")
    assert await listed(ann) == [jobs[1].id]
    statuses = [await guarded.status(ann, "GET", f"{V1}/jobs/{job.id}") for job in jobs]
    assert statuses == [404, 200]
    assert await guarded.status(ann, "POST", f"{V1}/jobs/{jobs[1].id}:cancel") == 403
    await grant(guarded, "table", "lake.sea.nets", "ann", "MODIFY")
    assert await guarded.status(ann, "POST", f"{V1}/jobs/{jobs[1].id}:cancel") == 200
    lease = {"worker": "w", "kinds": ["compact"]}
    assert await guarded.status(ann, "POST", f"{V1}/jobs:take", lease) == 403
    assert done(await guarded.ask(worker, "POST", f"{V1}/jobs:take", lease))["job"]["id"] == jobs[0].id
    assert (await listed(worker))[0] == jobs[0].id, "a worker sees all jobs"


async def test_a_location_of_the_callers_choice_needs_a_privilege_of_its_own(tmp_path: Path) -> None:
    """Otherwise a caller that may create tables could read the files of others by registering them."""
    folder = tmp_path / "files"
    (folder / "theirs").mkdir(parents=True)
    async with open_guarded(tmp_path / "data", external_folder=folder) as guarded:
        await furnish(guarded)
        ann = await guarded.user("ann")
        await use(guarded, "ann")
        await grant(guarded, "schema", "lake.sea", "ann", "CREATE TABLE", "CREATE VOLUME")
        location = {"storage_location": f"file://{folder}/theirs"}
        common = {"catalog_name": "lake", "schema_name": "sea"}
        table = {"name": "theirs", "table_type": "EXTERNAL", "data_source_format": "PARQUET", "columns": []}
        requests = [
            (f"{UNITY}/tables", {**common, **table, **location}),
            (f"{UNITY}/volumes", {**common, "name": "v", "volume_type": "EXTERNAL", **location}),
            (ICEBERG, {"name": "i", "schema": SCHEMA, "location": f"file://{folder}/theirs"}),
        ]
        for path, body in requests:
            answer = await guarded.ask(ann, "POST", path, body)
            assert answer.status_code == 403, path
            assert "CREATE EXTERNAL TABLE on the metastore" in answer.text
        assert await guarded.status(ann, "POST", ICEBERG, {"name": "own", "schema": SCHEMA}) == 200, "assigned"
        await grant(guarded, "metastore", "main", "ann", "CREATE EXTERNAL TABLE")
        assert await guarded.status(ann, "POST", *requests[0]) == 200


async def test_a_schema_is_shared_by_those_who_may_read_all_its_tables(guarded: Guarded) -> None:
    """USE SCHEMA shows a schema and opens no table, so it must not open all of them to a recipient."""
    await furnish(guarded)
    ann = await guarded.user("ann")
    await use(guarded, "ann")
    await grant(guarded, "metastore", "main", "ann", "CREATE SHARE")
    await grant(guarded, "table", TABLE, "ann", "SELECT")
    assert await guarded.status(ann, "POST", f"{UNITY}/shares", {"name": "fish"}) == 200
    whole = {"updates": [{"action": "ADD", "data_object": {"name": "lake.sea", "data_object_type": "SCHEMA"}}]}
    answer = await guarded.ask(ann, "PATCH", f"{UNITY}/shares/fish", whole)
    assert (answer.status_code, "SELECT on schema 'sea'" in answer.text) == (403, True), answer.text
    await grant(guarded, "schema", "lake.sea", "ann", "SELECT")
    assert await guarded.status(ann, "PATCH", f"{UNITY}/shares/fish", whole) == 200


async def test_a_rename_does_not_tell_what_is_at_its_destination(guarded: Guarded) -> None:
    await furnish(guarded)
    for name in ("hidden", "hidden.deep"):
        await guarded.run("POST", "/iceberg/v1/lake/namespaces", {"namespace": name.split(".")})
    await guarded.run("POST", "/iceberg/v1/lake/namespaces/hidden%1Fdeep/tables", {"name": "x", "schema": SCHEMA})
    ann = await guarded.user("ann")
    await grant(guarded, "catalog", "lake", "ann", "USE CATALOG")
    await grant(guarded, "schema", "lake.sea", "ann", "USE SCHEMA", "MANAGE")

    async def answer(to: list[str], name: str) -> tuple[int, str]:
        body = {"source": {"namespace": ["sea"], "name": "boats"}, "destination": {"namespace": to, "name": name}}
        got = await guarded.ask(ann, "POST", "/iceberg/v1/lake/tables/rename", body)
        return got.status_code, got.text

    missing = await answer(["hidden", "none"], "x")
    assert missing[0] == 404
    for to, name in ((["hidden", "deep"], "x"), (["hidden", "deep"], "y")):
        assert await answer(to, name) == (404, missing[1].replace("hidden.none", "hidden.deep"))
    below = await answer(["hidden", "deep", "er"], "x")
    assert below == (404, missing[1].replace("hidden.none", "hidden.deep")), "not the name of the level below"
    assert (await answer(["sea"], "ships"))[0] == 204, "in its own schema it needs no privilege to create"
