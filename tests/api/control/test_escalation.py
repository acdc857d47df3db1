"""What a caller with some privilege must not gain by it."""

from __future__ import annotations

from pathlib import Path

from tests.api.control.guarded import UNITY, open_guarded
from tests.api.control.test_grants import TABLE, furnish, grant, use


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
