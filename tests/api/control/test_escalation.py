"""What a caller with some privilege must not gain by it."""

from __future__ import annotations

from pathlib import Path

from tests.api.control.guarded import UNITY, Guarded, open_guarded
from tests.api.control.test_grants import TABLE, furnish, grant, revoke, use
from tests.api.house import done

SHARE = f"{UNITY}/shares/fish"


async def test_who_manages_a_share_does_not_show_more_of_a_table_that_it_may_not_read(guarded: Guarded) -> None:
    """Otherwise it could remove a partition filter, and read all rows as a recipient of its own."""
    await furnish(guarded)
    ann = await guarded.user("ann")
    await guarded.run("POST", f"{UNITY}/shares", {"name": "fish"})

    def change(action: str, name: str = TABLE, **given: str) -> dict[str, object]:
        return {"updates": [{"action": action, "data_object": {"name": name, "data_object_type": "TABLE", **given}}]}

    await guarded.run("PATCH", SHARE, change("ADD"))
    await use(guarded, "ann")
    await grant(guarded, "share", "fish", "ann", "MANAGE")
    history = {"history_data_sharing_status": "ENABLED"}
    answer = await guarded.ask(ann, "PATCH", SHARE, change("UPDATE", **history))
    assert (answer.status_code, "SELECT on table 'boats'" in answer.text) == (403, True), answer.text
    assert await guarded.status(ann, "PATCH", SHARE, change("UPDATE", comment="of 2026")) == 200
    await guarded.run("PATCH", f"{UNITY}/tables/{TABLE}", {"new_name": "ships"})
    assert await guarded.status(ann, "PATCH", SHARE, change("UPDATE", **history)) == 403, "by its former name"
    await grant(guarded, "table", "lake.sea.ships", "ann", "SELECT")
    assert await guarded.status(ann, "PATCH", SHARE, change("UPDATE", **history)) == 200
    await revoke(guarded, "table", "lake.sea.ships", "ann", "SELECT")
    shared = done(await guarded.ask(ann, "GET", f"{SHARE}?include_shared_data=true"))["objects"]
    assert [each["history_data_sharing_status"] for each in shared] == ["ENABLED"]
    assert await guarded.status(ann, "PATCH", SHARE, change("REMOVE")) == 200


async def test_who_may_not_choose_a_location_does_not_learn_what_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    (folder / "theirs" / "_delta_log").mkdir(parents=True)
    (folder / "theirs" / "x.json").write_text("{}")
    (folder / "theirs" / "_delta_log" / f"{0:020}.json").write_text("no log")
    async with open_guarded(tmp_path / "data", external_folder=folder) as guarded:
        await furnish(guarded)
        ann = await guarded.user("ann")
        await use(guarded, "ann")
        await grant(guarded, "schema", "lake.sea", "ann", "CREATE TABLE")
        await grant(guarded, "table", TABLE, "ann", "MANAGE")
        namespace = "/iceberg/v1/lake/namespaces/sea"
        delta = {"catalog_name": "lake", "schema_name": "sea", "name": "d", "table_type": "EXTERNAL", "columns": []}
        for name in ("theirs", "none"):
            metadata = {"name": "r", "metadata-location": f"file://{folder}/{name}/x.json"}
            location = f"file://{folder}/{name}"
            for path, body in (
                (f"{namespace}/register", metadata),
                (f"{namespace}/register", {**metadata, "name": "boats", "overwrite": True}),
                (f"{namespace}/register-view", metadata),
                ("/lance/v1/table/lake$sea$r/register", {"location": location}),
                (f"{UNITY}/tables", {**delta, "data_source_format": "DELTA", "storage_location": location}),
            ):
                answer = await guarded.ask(ann, "POST", path, body)
                assert answer.status_code == 403, (path, answer.text)
                assert "CREATE EXTERNAL TABLE" in answer.text
