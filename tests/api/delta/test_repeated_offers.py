"""Offers that are repeated after their commit, or given up: files of a version are never deleted for it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from moorage.testing import delta_writer as write
from tests.api.delta.delta_client import TABLES, DeltaClient, Staged, ok
from tests.api.delta.test_expiry import lease
from tests.api.delta.test_large_offers import large_table, offered
from tests.api.house import V1, House


async def changed(house: House, client: DeltaClient) -> tuple[Staged, dict[str, Any]]:
    """A table, and the body of an offer of a client that has appended a file to a shadow of it."""
    table = await client.make()
    shadow = ok(await client.http.post(f"{TABLES}/t/shadows", json={"with-files": False}))
    folder = table.folder / shadow["folder"]
    (folder / "new.parquet").write_bytes(b"x" * 500)
    (folder / "_delta_log" / f"{1:020}.json").write_bytes(
        write.lines(write.commit_info(1), write.add("new.parquet", size=500))
    )
    for file in (folder / "_delta_log").iterdir():
        os.utime(file, (house.clock() / 1000, house.clock() / 1000))
    return table, {"folder": shadow["folder"], "base-version": shadow["base-version"]}


async def committed_change(house: House, client: DeltaClient) -> tuple[Staged, dict[str, Any]]:
    """The same after the offer."""
    table, body = await changed(house, client)
    assert ok(await client.http.post(f"{TABLES}/t/offers", json=body))["version"] == 1
    return table, body


async def missing(client: DeltaClient, table: Staged) -> list[str]:
    """The files of the newest version that do not exist."""
    files = ok(await client.http.get(f"{TABLES}/t/files"))["files"]
    assert files
    return [each["path"] for each in files if not (table.folder / each["path"]).exists()]


@pytest.mark.parametrize("base_version", [1, 2**63 - 1])
async def test_an_offer_on_a_version_that_does_not_exist_is_refused(
    house: House, spec: DeltaClient, base_version: int
) -> None:
    table = await spec.make()
    folder = ok(await spec.http.post(f"{TABLES}/t/shadows", json={"with-files": False}))["folder"]
    change = {"folder": folder, "base-version": base_version, "discard": True}
    refused = await spec.http.post(f"{TABLES}/t/offers", json=change)
    assert (refused.status_code, "above the head 0" in refused.text) == (400, True), refused.text
    _, header = await lease(house, "compact")
    job = header["moorage-job"].partition(";")[0]
    rewrite = {"folder": f"compact-{job}/3f9a0c2be417/", "base_version": base_version}
    refused = await spec.http.post(f"{V1}/tables/{table.id}/offers", headers=header, json=rewrite)
    assert (refused.status_code, "above the head 0" in refused.text) == (400, True), refused.text


@pytest.mark.parametrize("more", [{}, {"discard": True}])
async def test_a_change_that_is_offered_or_discarded_after_its_commit_keeps_its_files(
    house: House, spec: DeltaClient, more: dict[str, Any]
) -> None:
    table, body = await committed_change(house, spec)
    again = ok(await spec.http.post(f"{TABLES}/t/offers", json={**body, **more}))
    assert await missing(spec, table) == []
    assert (again["outcome"], again["version"]) == ("committed", 1)


async def test_a_rewrite_that_is_offered_after_its_commit_keeps_its_files(house: House, spec: DeltaClient) -> None:
    table = await large_table(spec)
    shadow, answer = await offered(house, spec, table)
    version = ok(answer)["version"]
    header = {"moorage-job": answer.request.headers["moorage-job"]}
    body = {"folder": shadow["folder"], "base_version": shadow["base_version"]}
    again = ok(await spec.http.post(f"{V1}/tables/{table.id}/offers", headers=header, json=body))
    assert await missing(spec, table) == []
    assert (again["outcome"], again["version"]) == ("committed", version)


async def test_a_change_is_not_committed_when_upkeep_may_be_removing_its_files(house: House, spec: DeltaClient) -> None:
    table, body = await changed(house, spec)
    log = table.folder / body["folder"] / "_delta_log" / f"{0:020}.json"
    made_s = house.clock() / 1000 - 23 * 3600 - 60
    os.utime(log, (made_s, made_s))
    found = ok(await spec.http.post(f"{TABLES}/t/offers", json=body))
    assert (found["outcome"], found["reason"]) == ("dropped", "the shadow is older than 23 hours")
