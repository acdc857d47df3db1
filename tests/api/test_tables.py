"""Tables of any format as the catalog records them, and the state and capabilities of the server."""

from __future__ import annotations

import moorage
from moorage.core.jobs import JOB_KINDS
from moorage.core.securables import Column, Doc, Kind, TableDoc
from moorage.server.compose import APIS
from moorage.testing import builders as make
from moorage.testing.builders import START_MS
from tests.api.house import Console, House, done, refused, to_namespace

TABLES = f"{to_namespace('lake', 'sea')}/tables"


async def test_a_table_is_returned_with_its_columns_its_location_and_its_head(house: House) -> None:
    lake = await make.lake(house.ledger, "other")
    table = make.table(
        lake.namespace,
        "Orders",
        owner="ann",
        doc=Doc(
            comment="c",
            properties={"a": "b"},
            location="file:///data/managed/x/",
            table=TableDoc(
                format="delta",
                columns=(Column(name="id", type_text="bigint", nullable=False), Column(name="n", type_text="int")),
            ),
        ),
    )
    await make.add(house.ledger, table, make.published_commit(table.id, 0), make.published_commit(table.id, 1))
    await house.ledger.record_published(table.id, "main", 0)
    found = done(await house.console.get(f"{TABLES}/orders"))
    assert done(await house.console.get(f"/tables/{table.id}")) == found | {"path": ["lake", "sea", "Orders"]}
    refused(await house.console.get(f"/tables/{lake.namespace}"), 404, "TABLE_NOT_FOUND")
    assert found == {
        "id": table.id,
        "kind": "table",
        "name": "Orders",
        "owner": "ann",
        "comment": "c",
        "properties": {"a": "b"},
        "revision": 1,
        "created_at_ms": START_MS,
        "created_by": "ann",
        "updated_at_ms": START_MS,
        "updated_by": "ann",
        "dropped_at_ms": None,
        "purge_at_ms": None,
        "format": "delta",
        "managed": True,
        "location": "file:///data/managed/x/",
        "columns": [{"name": "id", "type_text": "bigint", "nullable": False}, {"name": "n", "type_text": "int"}],
        "head": {"version": 1, "timestamp_ms": START_MS + 1, "published": 0},
    }
    listed = done(await house.console.get(TABLES))
    assert [item["name"] for item in listed["items"]] == ["Orders", "other"]
    assert listed["items"][0] == found


async def test_tables_and_views_are_paged_in_one_list(house: House) -> None:
    lake = await make.lake(house.ledger, "b", "d", "f")
    for name in ("a", "c", "e", "g"):
        await make.add(house.ledger, make.create(Kind.VIEW, lake.namespace, name))
    names, token = [], ""
    for _ in range(4):
        page = done(await house.console.get(TABLES, max_results=2, page_token=token))
        names.append([(item["name"], item["kind"]) for item in page["items"]])
        token = page["next_page_token"] or ""
    assert names[0] == [("a", "view"), ("b", "table")]
    assert [name for page in names for name, _ in page] == list("abcdefg")
    assert token == ""


async def test_a_view_is_not_returned_as_a_table(house: House) -> None:
    lake = await make.lake(house.ledger, "t")
    await make.add(house.ledger, make.create(Kind.VIEW, lake.namespace, "v"))
    refused(await house.console.get(f"{TABLES}/v"), 404, "TABLE_NOT_FOUND")
    refused(await house.console.get(f"{TABLES}/x"), 404, "TABLE_NOT_FOUND")
    refused(await house.console.get("/catalogs/lake/namespaces/x/tables/t"), 404, "NAMESPACE_NOT_FOUND")
    refused(await house.console.get("/catalogs/lake/namespaces/x/tables"), 404, "NAMESPACE_NOT_FOUND")


async def test_health_reports_the_position_of_the_ledger(house: House) -> None:
    console = house.console
    before = done(await console.get("/health"))
    assert before == {
        "version": moorage.__version__,
        "ledger": "sqlite",
        "metastore_id": house.ledger.root,
        "seq": 1,
        "at_ms": START_MS,
        "open_jobs": 0,
        "uptime_seconds": before["uptime_seconds"],
    }
    await console.make("lake")
    done(await console.post("/jobs", {"kind": "audit"}), 202)
    after = done(await console.get("/health"))
    assert (after["seq"], after["open_jobs"]) == (3, 1)
    done(await console.post("/jobs:take", {"worker": "w", "kinds": ["audit"]}))
    assert done(await console.get("/health"))["open_jobs"] == 1


async def test_a_capability_is_reported_only_with_the_routes_for_it(console: Console) -> None:
    reported = done(await console.http.get("/api/2.1/unity-catalog/capabilities"))
    operations = {route.operation for api in APIS for route in api.routes}
    assert reported == {
        "iceberg_rest": "loadTable" in operations,
        "lance_namespace": "CreateTableVersion" in operations,
        "credential_vending": False,  # not needed on local disk, and not vended for object stores
        "table_compaction": JOB_KINDS["compact"].has_program,  # without a program nothing is compacted
    }


async def test_probes_and_metrics_are_answered(console: Console) -> None:
    for probe in ("/healthz", "/readyz"):
        got = await console.http.get(probe)
        assert done(got) == {"status": "ok"}
        head = await console.http.head(probe)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == got.headers["content-length"]
    metrics = await console.http.get("/metrics")
    assert metrics.status_code == 200
    assert metrics.headers["content-type"].startswith("text/plain")
