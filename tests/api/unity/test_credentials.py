"""Temporary credentials and the metastore's summary through the Unity API."""

from __future__ import annotations

from typing import Any

from moorage import fresh
from moorage.core.ids import SecurableId
from moorage.core.securables import Doc, Kind
from moorage.testing import builders as make
from tests.api.house import House, done
from tests.api.unity.unity import IN_S, Unity, invalid, refused


def without_credentials(url: str) -> dict[str, Any]:
    return {
        "aws_temp_credentials": None,
        "azure_user_delegation_sas": None,
        "gcp_oauth_token": None,
        "expiration_time": None,
        "url": url,
    }


async def ask(uc: Unity, what: str, **body: Any) -> Any:
    return await uc.post(f"/temporary-{what}-credentials", body)


async def test_files_on_local_disk_need_no_credentials(uc: Unity) -> None:
    await uc.schema()
    table = (await uc.external("t", "/lakes/t"))["table_id"]
    volume = done(await uc.post("/volumes", {"name": "v", **IN_S, "volume_type": "MANAGED"}))
    done(await uc.post("/models", {"name": "m", **IN_S}))
    version = done(await uc.post("/models/versions", {"model_name": "m", **IN_S, "source": "s"}))
    for operation in ("READ", "READ_WRITE"):
        assert done(await ask(uc, "table", table_id=table, operation=operation)) == without_credentials(
            "file:///lakes/t"
        )
    for operation in ("READ_VOLUME", "WRITE_VOLUME"):
        answer = await ask(uc, "volume", volume_id=volume["volume_id"], operation=operation)
        assert done(answer) == without_credentials(volume["storage_location"])
    for operation in ("READ_MODEL_VERSION", "READ_WRITE_MODEL_VERSION"):
        answer = await ask(uc, "model-version", **IN_S, model_name="m", version=1, operation=operation)
        assert done(answer) == without_credentials(version["storage_location"])
    for operation in ("PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE"):
        assert done(await ask(uc, "path", url="file:/lakes/x/", operation=operation)) == without_credentials(
            "file:///lakes/x"
        )


async def test_only_the_creator_of_a_staging_table_gets_credentials(house: House, uc: Unity) -> None:
    await uc.schema()
    schema = done(await uc.get("/schemas/lake.s"))["schema_id"]
    staging_table = make.create(
        Kind.STAGING_TABLE, schema, "x", id=fresh.securable_id(), doc=Doc(location="file:///m/x/")
    )
    await make.add(house.ledger, staging_table)
    body = {"table_id": staging_table.id, "operation": "READ_WRITE"}
    assert done(await uc.post("/temporary-table-credentials", body, caller="ann")) == without_credentials("file:///m/x")
    refused(await uc.post("/temporary-table-credentials", body, caller="bob"), 403, "PERMISSION_DENIED")


async def test_invalid_requests_for_credentials_are_refused(uc: Unity) -> None:
    await uc.schema()
    unknown = SecurableId("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4dff")
    for id in (unknown, "x", "", unknown.upper()):
        missing = await ask(uc, "table", table_id=id, operation="READ")
        refused(missing, 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")
        refused(await ask(uc, "volume", volume_id=id, operation="READ_VOLUME"), 404, "NOT_FOUND")
    catalog = done(await uc.get("/catalogs/lake"))["id"]
    assert "table_id" in invalid(await ask(uc, "table", table_id=catalog, operation="READ"))
    refused(await ask(uc, "volume", volume_id=catalog, operation="READ_VOLUME"), 404, "NOT_FOUND")
    away = (await uc.external("away", "s3://bucket/t"))["table_id"]
    refused(await ask(uc, "table", table_id=away, operation="READ"), 400, "UNIMPLEMENTED")
    refused(await ask(uc, "path", url="s3://bucket/t", operation="PATH_READ"), 400, "UNIMPLEMENTED")
    for url in ("lakes", "/a/../b", "file://host/a"):
        assert "url" in invalid(await ask(uc, "path", url=url, operation="PATH_READ"))
    for operation in ("UNKNOWN_TABLE_OPERATION", "", None):
        assert "operation" in invalid(await ask(uc, "table", table_id=away, operation=operation))


async def test_the_metastore_id_is_the_root_of_the_ledger(house: House, uc: Unity) -> None:
    assert done(await uc.get("/metastore_summary")) == {"metastore_id": house.ledger.root}
