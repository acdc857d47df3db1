"""Sections L and M: the other operations on tables, and privileges.

Cases 166 and 167 are about tokens and 174 about the metastore's admin. Both need identity, which is not implemented
yet. `tests/api/test_access_seam.py` checks that every route authenticates and authorizes the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import force_setattr

from moorage.core.callers import Caller
from moorage.core.privileges import Privilege
from moorage.core.securables import Securable
from moorage.testing.builders import HOUR_MS
from moorage.usecases.upkeep.purge import purge_due
from tests.api.delta.cases import INVALID, refuses, row
from tests.api.delta.delta_client import CLASSIC, TABLES, UNITY, V1, DeltaClient, ok
from tests.api.doors import NamedCallers
from tests.api.house import House


@pytest.mark.parametrize("family", ["spec", "v1"])
async def test_case_159_the_files_of_a_dropped_table_are_deleted_after_the_hold_period(
    spec: DeltaClient, house: House, family: str
) -> None:
    table = await spec.make()
    ok(await spec.commit(table, table.stage(1)))
    if family == "v1":
        ok(await spec.http.delete(f"{TABLES}/t"), 204)
    else:
        assert ok(await spec.http.delete(f"{UNITY}/tables/lake.sea.t")) == {}
    house.clock.advance(6 * 24 * HOUR_MS)
    await purge_due(house.ports)
    assert table.folder.exists()
    house.clock.advance(2 * 24 * HOUR_MS)
    await purge_due(house.ports)
    assert not table.folder.exists()
    assert await house.ledger.versions(house.ledger.root, "main") == ()


async def test_case_160_a_renamed_table_keeps_its_id_and_commits(v1: DeltaClient) -> None:
    table = await v1.make()
    ok(await v1.commit(table, table.stage(1)))
    await v1.make("other")
    for wrong in ("", " ", "a.b"):
        refuses(await v1.http.post(f"{TABLES}/t/rename", json={"new-name": wrong}), 400, *INVALID)
    refuses(await v1.http.post(f"{TABLES}/x/rename", json={"new-name": "y"}), 404, "NoSuchTableException")
    refuses(await v1.http.post(f"{TABLES}/t/rename", json={"new-name": "other"}), 409, "AlreadyExistsException")
    ok(await v1.http.post(f"{TABLES}/t/rename", json={"new-name": "t"}), 204)
    ok(await v1.http.post(f"{TABLES}/t/rename", json={"new-name": "u"}), 204)
    after = ok(await v1.load("u"))
    assert (after["metadata"]["table-uuid"], after["latest-table-version"]) == (table.id, 1)
    assert (await v1.load()).status_code == 404


async def test_case_161_a_head_request_checks_whether_a_table_exists(v1: DeltaClient) -> None:
    await v1.make()
    assert (await v1.http.head(f"{TABLES}/t")).status_code == 204
    assert (await v1.http.head(f"{TABLES}/x")).status_code == 404
    assert (await v1.http.head(f"{V1}/catalogs/x/schemas/sea/tables/t")).status_code == 404


def report(**changes: Any) -> dict[str, Any]:
    bins = {"sorted-bin-boundaries": [0, 8], "file-counts": [1, 0], "total-bytes": [5, 0], "commit-version": 1}
    given = {"num-files-added": 1, "num-rows-inserted": 0, "file-size-histogram": {**bins, **changes.pop("bins", {})}}
    return {"commit-report": {**given, **changes}}


async def test_case_162_the_first_report_per_version_is_stored(v1: DeltaClient, house: House) -> None:
    table = await v1.make()
    other = await v1.make("other")
    ok(await v1.commit(table, table.stage(1)))
    path = f"{TABLES}/t/metrics"
    ok(await v1.http.post(path, json={"table-id": table.id, "report": report()}), 204)
    ok(await v1.http.post(path, json={"table-id": table.id, "report": report(**{"num-files-added": 9})}), 204)
    refuses(await v1.http.post(path, json={"report": report()}), 400, *INVALID)
    refuses(await v1.http.post(path, json={"table-id": other.id, "report": report()}), 400, *INVALID)
    refuses(await v1.http.post(f"{TABLES}/x/metrics", json={"table-id": table.id}), 404, "NoSuchTableException")
    [kept] = ok(await house.console.get("/catalogs/lake/namespaces/sea/tables/t/reports"))["items"]
    assert (kept["version"], kept["report"]["num_files_added"], kept["report"]["commit_version"]) == (1, 1, 1)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num-files-added": -1},
        {"num-rows-updated": -1},
        {"bins": {"commit-version": 2}},
        {"bins": {"commit-version": -1}},
        {"bins": {"sorted-bin-boundaries": [1, 8]}},
        {"bins": {"sorted-bin-boundaries": [0, 8, 8]}},
        {"bins": {"sorted-bin-boundaries": [8, 0]}},
        {"bins": {"file-counts": [1]}},
        {"bins": {"total-bytes": [1, 2, 3]}},
        {"bins": {"total-bytes": [-1, 2]}},
    ],
)
async def test_an_invalid_report_is_refused(v1: DeltaClient, house: House, wrong: dict[str, Any]) -> None:
    table = await v1.make()
    ok(await v1.commit(table, table.stage(1)))
    body = report(**wrong)
    refuses(await v1.http.post(f"{TABLES}/t/metrics", json={"table-id": table.id, "report": body}), 400, *INVALID)
    words = {key.replace("-", "_"): value for key, value in body["commit-report"].items()}
    bins = {key.replace("-", "_"): value for key, value in words["file_size_histogram"].items()}
    words |= {"commit_version": bins.pop("commit_version"), "file_size_histogram": bins}
    for path in ("/delta/metrics", "/delta/preview/metrics"):
        given = {"table_id": table.id, "table_uri": table.location, "report": {"commit_report": words}}
        refuses(await v1.http.post(UNITY + path, json=given), 400, *INVALID, "report.commit_report")
    assert ok(await house.console.get("/catalogs/lake/namespaces/sea/tables/t/reports"))["items"] == []


async def test_a_report_to_the_specifications_api_must_state_the_version(spec: DeltaClient) -> None:
    table = await spec.make()
    for path in ("/delta/metrics", "/delta/preview/metrics"):
        given: dict[str, Any] = {"table_id": table.id, "table_uri": table.location}
        assert ok(await spec.http.post(UNITY + path, json=given)) == {}
        given["report"] = {"commit_report": {"num_files_added": 0}}
        refuses(await spec.http.post(UNITY + path, json=given), 400, "commit_version")
        given["report"]["commit_report"]["commit_version"] = 0
        assert ok(await spec.http.post(UNITY + path, json=given)) == {}
        refuses(await spec.http.post(UNITY + path, json={**given, "table_uri": "file:///x"}), 400, "table_uri")


async def test_case_163_a_table_of_another_format_is_refused_with_the_name_that_clients_expect(v1: DeltaClient) -> None:
    body = {**CLASSIC, "name": "p", "table_type": "EXTERNAL", "data_source_format": "PARQUET", "columns": []}
    ok(await v1.http.post(f"{UNITY}/tables", json={**body, "storage_location": "/data/p"}))
    view = {**CLASSIC, "name": "v", "table_type": "VIEW", "view_definition": "select 1", "columns": []}
    ok(await v1.http.post(f"{UNITY}/tables", json=view))
    for name in ("p", "v"):
        refuses(await v1.load(name), 400, "UnsupportedTableFormatException")


async def test_an_external_delta_table_registered_through_the_older_api_can_be_loaded(v1: DeltaClient) -> None:
    columns = [{"name": "id", "type_text": "bigint"}, {"name": "d", "type_text": "date", "partition_index": 0}]
    body = {**CLASSIC, "name": "e", "table_type": "EXTERNAL", "data_source_format": "DELTA", "columns": columns}
    ok(await v1.http.post(f"{UNITY}/tables", json={**body, "storage_location": "/data/e", "properties": {"a": "b"}}))
    loaded = ok(await v1.load("e"))
    assert loaded["metadata"]["columns"]["fields"][0] == {
        "name": "id",
        "type": "long",
        "nullable": True,
        "metadata": {},
    }
    assert loaded["metadata"]["partition-columns"] == ["d"]
    assert loaded["metadata"]["properties"] == {"a": "b"}
    assert (loaded["commits"], "latest-table-version" in loaded) == ([], False)


@pytest.mark.parametrize(
    ("query", "status", "name"),
    [
        row(164, "no catalog", {"protocol-versions": "1.0"}, 400, INVALID[1]),
        row(164, "an unknown one", {"catalog": "x", "protocol-versions": "1.0"}, 404, "NoSuchCatalogException"),
        row(164, "no versions", {"catalog": "lake"}, 400, INVALID[1]),
        row(164, "an unsupported version", {"catalog": "lake", "protocol-versions": "2.0"}, 400, INVALID[1]),
        row(164, "not a version", {"catalog": "lake", "protocol-versions": "new"}, 400, INVALID[1]),
    ],
)
async def test_an_invalid_configuration_request_is_refused(
    v1: DeltaClient, query: dict[str, str], status: int, name: str
) -> None:
    refuses(await v1.http.get(f"{V1}/config", params=query), status, name)


async def test_case_165_every_advertised_operation_exists(v1: DeltaClient) -> None:
    config = ok(await v1.http.get(f"{V1}/config", params={"catalog": "lake", "protocol-versions": "1.4,2.0"}))
    assert config["protocol-version"] == "1.0"
    names = {"catalog": "lake", "schema": "sea", "table": "t", "table_id": "x"}
    for endpoint in config["endpoints"]:
        verb, path = endpoint.split(" ")
        answer = await v1.http.request(verb, UNITY + "/delta" + path.format(**names))
        assert answer.status_code != 405
        assert "no operation exists at" not in answer.text
    assert "GET /v1/temporary-path-credentials" in config["endpoints"]
    assert "GET /v1/catalogs/{catalog}/schemas/{schema}/tables" not in config["endpoints"]


async def test_credentials_for_a_table_and_for_a_folder_are_empty_on_local_disk(v1: DeltaClient) -> None:
    table = await v1.make()
    for operation in ("READ", "READ_WRITE"):
        of_table = await v1.http.get(f"{TABLES}/t/credentials", params={"operation": operation})
        where = {"location": "file:///data/new", "operation": operation}
        of_path = await v1.http.get(f"{V1}/temporary-path-credentials", params=where)
        for answer, prefix in ((of_table, table.location), (of_path, "file:///data/new")):
            assert ok(answer)["storage-credentials"] == [
                {"prefix": prefix, "operation": operation, "config": {}, "expiration-time-ms": None}
            ]
    refuses(await v1.http.get(f"{TABLES}/t/credentials", params={"operation": "OWN"}), 400, *INVALID)
    refuses(await v1.http.get(f"{TABLES}/x/credentials", params={"operation": "READ"}), 404, "NoSuchTableException")


# --- privileges ----------------------------------------------------------------------------------


class GrantedCallers(NamedCallers):
    """Callers with the privileges that a test grants them. All other callers may do everything."""

    def __init__(self, **privileges: set[Privilege]) -> None:
        super().__init__()
        self.privileges = privileges

    def allow(self, caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
        return caller.id not in self.privileges or privilege in self.privileges[caller.id]


READER, WRITER = {Privilege.BROWSE, Privilege.READ}, {Privilege.BROWSE, Privilege.MODIFY}


@pytest.fixture
def grants(house: House) -> House:
    access = GrantedCallers(reader=READER, writer=WRITER, both=READER | WRITER, outsider=set())
    force_setattr(house.ports, "access", access)
    return house


@pytest.mark.parametrize(
    ("caller", "commit", "publish", "read"),
    [
        row(168, "SELECT alone", "reader", 403, 403, 200),
        row(169, "MODIFY alone", "writer", 200, 400, 403),
        row(170, "both", "both", 200, 400, 200),
        row(172, "an outsider", "outsider", 403, 403, 403),
    ],
)
async def test_a_commit_needs_modify_and_reading_needs_select(
    client: DeltaClient, grants: House, caller: str, commit: int, publish: int, read: int
) -> None:
    table = await client.make()
    ok(await client.commit(table, table.stage(1)))
    client.http.headers["x-caller"] = caller
    assert (await client.commit(table, table.stage(2))).status_code == commit
    assert (await client.commit(table, published=1)).status_code == publish
    found = await (client.load() if client.family == "v1" else client.get_commits(table))
    assert found.status_code == read


@pytest.mark.parametrize(
    ("caller", "operation", "status"),
    [
        row(173, "reading", "reader", "READ", 200),
        row(173, "writing with SELECT alone", "reader", "READ_WRITE", 403),
        row(173, "writing with both", "both", "READ_WRITE", 200),
        row(173, "an outsider", "outsider", "READ", 403),
    ],
)
async def test_credentials_follow_the_privileges(
    v1: DeltaClient, grants: House, caller: str, operation: str, status: int
) -> None:
    table = await v1.make()
    v1.http.headers["x-caller"] = caller
    classic = {"table_id": table.id, "operation": operation}
    answers = [
        await v1.http.get(f"{TABLES}/t/credentials", params={"operation": operation}),
        await v1.http.post(f"{UNITY}/temporary-table-credentials", json=classic),
    ]
    assert [answer.status_code for answer in answers] == [status, status]


async def test_case_171_and_172_a_caller_without_privileges_is_refused(spec: DeltaClient, grants: House) -> None:
    table = await spec.make()
    ok(await spec.commit(table, table.stage(1)))
    spec.http.headers["x-caller"] = "outsider"
    in_query = await spec.http.get(f"{UNITY}/delta/commits", params={"table_id": table.id})
    assert in_query.status_code == 403
    nameless = {"table_uri": table.location, "commit_info": table.stage(2)}
    assert (await spec.http.post(f"{UNITY}/delta/commit", json=nameless)).status_code in (400, 403)
