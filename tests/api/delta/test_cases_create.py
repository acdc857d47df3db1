"""Section B: creating a table from the first commit at its staging location."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from tests.api.delta.cases import INVALID, refuses, row
from tests.api.delta.delta_client import CLASSIC, TABLES, UNITY, DeltaClient, Staged, ok

ID = "io.unitycatalog.tableId"


@pytest.fixture(params=["spec", "v1"])
def client(request: pytest.FixtureRequest, spec: DeltaClient) -> DeltaClient:
    """The preview API creates tables through the same route as the specification."""
    return DeltaClient(spec.http, request.param)


async def written(client: DeltaClient, *actions: Any, **changes: Any) -> Staged:
    staged = await client.stage()
    staged.write_first(*actions, **changes)
    return staged


async def test_case_16_the_table_has_the_id_and_location_of_its_staging_table(
    client: DeltaClient, spec: DeltaClient
) -> None:
    staged = await written(client)
    ok(await client.create(staged))
    shown = ok(await spec.get_table())
    assert (shown["table_id"], shown["storage_location"]) == (staged.id, staged.location)
    assert (shown["table_type"], shown["data_source_format"]) == ("MANAGED", "DELTA")
    assert [column["type_text"] for column in shown["columns"]] == ["bigint"]
    assert shown["properties"]["delta.feature.catalogManaged"] == "supported"
    assert shown["properties"]["delta.lastUpdateVersion"] == "0"
    assert shown["properties"]["delta.lastCommitTimestamp"] == str(START_MS)
    assert (shown["owner"], shown["created_by"]) == ("local", "local")


async def test_case_17_a_table_without_0_json_is_refused(client: DeltaClient) -> None:
    refuses(await client.create(await client.stage()), 400, *INVALID, "00000000000000000000.json")


def without(feature: str) -> tuple[str, ...]:
    return tuple(each for each in write.ALL_FEATURES if each != feature)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        *[row(18, f"without {f}", {"features": without(f)}, f) for f in write.SPEC_FEATURES],
        row(18, "old readers", {"protocol": write.protocol(reader=1)}, "minReaderVersion"),
        row(18, "old writers", {"protocol": write.protocol(writer=2)}, "minWriterVersion"),
        row(18, "no protocol", {"protocol": None}, "protocol"),
        row(18, "no metadata", {"metadata": {}}, "metaData"),
        row(18, "no commitInfo", {"info": None}, "commitInfo"),
        row(18, "no timestamp", {"info": {"commitInfo": {"operation": "WRITE"}}}, "inCommitTimestamp"),
        row(18, "timestamps off", {"properties": {"delta.enableInCommitTimestamps": "false"}}, "enableInCommit"),
        row(18, "another id in the file", {"properties": {ID: "00000000-0000-4000-8000-000000000000"}}, ID),
    ],
)
async def test_a_first_commit_that_violates_the_contract_is_refused(
    client: DeltaClient, changes: dict[str, Any], word: str
) -> None:
    staged = await written(client, **changes)
    refuses(await client.create(staged), 400, *INVALID, word)
    assert (await client.get_table()).status_code == 404


async def test_case_18_an_unreadable_first_commit_is_refused(client: DeltaClient) -> None:
    staged = await client.stage()
    for data in (b"", b"{", b"PAR1", b'{"add":1}\n', b"\xff"):
        staged.write_first()
        (staged.folder / "_delta_log" / f"{0:020}.json").write_bytes(data)
        refuses(await client.create(staged), 400, *INVALID)


@pytest.mark.parametrize(
    "properties",
    [
        row(19, "no id", {ID: None}),
        row(20, "another id", {ID: "00000000-0000-4000-8000-000000000000"}),
    ],
)
async def test_a_request_without_the_id_of_the_staging_table_is_refused(
    client: DeltaClient, properties: dict[str, Any]
) -> None:
    refuses(await client.create(await written(client), properties=properties), 400, *INVALID, ID)


@pytest.mark.parametrize("where", ["file:///nowhere/at/all", "s3://bucket/x", "{location}/deeper", "{location}x"])
async def test_case_21_a_location_that_is_not_a_staging_location_is_refused(client: DeltaClient, where: str) -> None:
    staged = await written(client)
    location = where.format(location=staged.location)
    field = "storage_location" if client.family == "spec" else "location"
    refuses(await client.create(staged, **{field: location}), 404, "TABLE_DOES_NOT_EXIST", "NoSuchTableException")


async def test_case_21_a_table_is_created_in_the_schema_of_its_staging_table(client: DeltaClient) -> None:
    """Unity's server accepts any schema, so the files of a table may be in the storage root of another schema."""
    http = client.http
    ok(await http.post(f"{UNITY}/schemas", json={"name": "lagoon", "catalog_name": "lake"}))
    staged = await client.stage(schema_name="lagoon")
    staged.write_first()
    refuses(await client.create(staged), 404, "TABLE_DOES_NOT_EXIST", "NoSuchTableException", "for 'lake.sea'")
    ok(await http.delete(f"{UNITY}/schemas/lake.sea"))
    ok(await http.patch(f"{UNITY}/schemas/lake.lagoon", json={"new_name": "sea"}))
    ok(await client.create(staged))


async def test_case_22_a_staging_table_is_used_once(client: DeltaClient) -> None:
    staged = await written(client)
    ok(await client.create(staged))
    staged.name = "second"
    refuses(await client.create(staged), 400, *INVALID)


async def test_a_creation_can_be_retried_until_the_table_has_another_version(client: DeltaClient) -> None:
    """Unity's Java client retries after a lost response, without an idempotency key."""
    staged = await written(client)
    first = ok(await client.create(staged))
    assert ok(await client.create(staged)) == first
    refuses(await client.http.post(TABLES, json=client.v1_body(await client.stage("u"), name="t")), 409)
    assert ok(await client.create(staged)) == first
    ok(await client.commit(staged, staged.stage(1)))
    taken = await client.create(staged)
    refuses(taken, 409 if client.family == "v1" else 400, "TABLE_ALREADY_EXISTS", "AlreadyExistsException")


async def test_case_23_another_caller_cannot_create_the_table(client: DeltaClient) -> None:
    staged = await written(client)
    client.http.headers["x-caller"] = "bob"
    refuses(await client.create(staged), 403, "PERMISSION_DENIED", "PermissionDeniedException")


@pytest.mark.parametrize("kind", [row(24, "PARQUET", "PARQUET"), row(24, "ICEBERG", "ICEBERG")])
async def test_a_managed_table_of_another_format_is_refused(spec: DeltaClient, kind: str) -> None:
    refuses(await spec.create(await written(spec), data_source_format=kind), 400, *INVALID)


@pytest.mark.parametrize("kind", [row(25, word, word) for word in ("STREAMING_TABLE", "MATERIALIZED_VIEW", "x")])
async def test_unsupported_table_types_are_refused(spec: DeltaClient, kind: str) -> None:
    refuses(await spec.create(await written(spec), table_type=kind), 400, *INVALID, "table_type")


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        row(26, "inside managed storage", "{managed}", "own storage"),
        row(26, "a folder of the catalog elsewhere", "s3://b/__unitystorage/x", "own storage"),
        row(27, "a bucket root", "s3://bucket", "bucket"),
        row(28, "another table", "/data/one", "overlaps"),
        row(28, "above another", "/data", "overlaps"),
        row(28, "below another", "/data/one/deeper", "overlaps"),
    ],
)
async def test_an_external_table_needs_a_location_of_its_own(client: DeltaClient, location: str, reason: str) -> None:
    first = await client.stage("managed")
    ok(await external(client, "one", "/data/one"))
    refuses(await external(client, "two", location.format(managed=first.location)), 400, *INVALID, reason)


async def external(client: DeltaClient, name: str, location: str) -> Any:
    table = Staged(name, "", location)
    if client.family == "v1":
        body = {**client.v1_body(table), "table-type": "EXTERNAL", "properties": {}}
        return await client.http.post(TABLES, json=body)
    body = {**client.classic_body(table), "table_type": "EXTERNAL", "properties": {}}
    return await client.http.post(f"{UNITY}/tables", json=body)


async def test_case_30_one_of_twelve_clients_creates_the_table(client: DeltaClient, spec: DeltaClient) -> None:
    staged = [await written(client) for _ in range(12)]
    answers = await asyncio.gather(*[client.create(each) for each in staged])
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200, *[409 if client.family == "v1" else 400] * 11]
    assert ok(await spec.get_table())["table_id"] in {each.id for each in staged}


@pytest.mark.parametrize(
    "changes",
    [
        *[
            row(31, f"no {word}", {word: ...})
            for word in ("protocol", "last-commit-timestamp-ms", "table-type", "name", "location")
        ],
        *[row(31, f"blank {word}", {word: " "}) for word in ("name", "location")],
        row(31, "another time", {"last-commit-timestamp-ms": START_MS + 1}),
        row(32, "reader 1", {"protocol": {"min-reader-version": 1, "min-writer-version": 7}}),
        row(32, "writer 2", {"protocol": {"min-reader-version": 3, "min-writer-version": 2}}),
        *[row(33, f"without {f}", {"features": without(f)}) for f in write.ALL_FEATURES],
        *[row(34, f"without {key}", {"properties": {key: None}}) for key in write.FIXED_PROPERTIES],
        *[row(34, f"another {key}", {"properties": {key: "x"}}) for key in write.FIXED_PROPERTIES],
        row(
            35,
            "a reader feature alone",
            {"protocol": {"min-reader-version": 3, "min-writer-version": 7, "reader-features": ["v2Checkpoint"]}},
        ),
        row(36, "clustering", {"domain-metadata": {"delta.clustering": {"clusteringColumns": [["id"]]}}}),
        row(36, "row tracking", {"domain-metadata": {"delta.rowTracking": {"rowIdHighWaterMark": 4}}}),
        row(38, "an unknown partition column", {"partition-columns": ["x"]}),
        row(43, "no columns", {"columns": ...}),
        row(43, "null columns", {"columns": None}),
        row(43, "empty columns", {"columns": {"type": "struct", "fields": []}}),
        row(44, "a block without the property", {"uniform": {"iceberg": {}}}),
    ],
)
async def test_an_incomplete_or_contradicting_request_of_delta_v1_is_refused(
    v1: DeltaClient, changes: dict[str, Any]
) -> None:
    refuses(await v1.create(await written(v1), **changes), 400, "InvalidParameterValueException")


@pytest.mark.parametrize("feature", [row(33, f, f) for f in write.ALL_FEATURES])
async def test_delta_v1_requires_more_features(v1: DeltaClient, feature: str) -> None:
    staged = await written(v1, features=without(feature))
    refuses(await v1.create(staged, features=without(feature)), 400, "InvalidParameterValueException", feature)


async def test_case_33_iceberg_v2_does_not_require_deletion_vectors(v1: DeltaClient) -> None:
    iceberg = {"delta.enableIcebergCompatV2": "true", "delta.enableDeletionVectors": None}
    features = (*without("deletionVectors"), "icebergCompatV2")
    protocol = write.protocol(features)
    protocol["protocol"]["readerFeatures"].remove("icebergCompatV2")
    staged = await written(v1, protocol=protocol, properties=iceberg)
    body = v1.v1_body(staged, features=features, properties=iceberg)
    body["protocol"]["reader-features"].remove("icebergCompatV2")
    ok(await v1.http.post(TABLES, json=body))


async def test_case_37_properties_derived_from_the_log_win_over_stated_ones(v1: DeltaClient) -> None:
    stated = {"delta.feature.v2Checkpoint": "x", "clusteringColumns": "[]", "delta.minReaderVersion": "1"}
    shown = ok(await v1.create(await written(v1), properties=stated))["metadata"]["properties"]
    assert shown["delta.feature.v2Checkpoint"] == "supported"
    assert shown["delta.minReaderVersion"] == "3"
    assert "clusteringColumns" not in shown


async def test_deltas_rust_kernel_creates_a_table_with_columns_as_in_its_log(v1: DeltaClient) -> None:
    """It sends `columns` in the format of the log, and a checkpoint policy that it cannot write to the log."""
    nested = {"type": "array", "elementType": "string", "containsNull": True}
    by_key = {"type": "map", "keyType": "string", "valueType": nested, "valueContainsNull": False}
    columns = tuple(column(name=name, type=kind) for name, kind in (("id", "long"), ("tags", nested), ("m", by_key)))
    staged = await v1.stage()
    properties = {
        key: value for key, value in write.configuration(staged.id).items() if key != "delta.checkpointPolicy"
    }
    features = (*write.ALL_FEATURES, "domainMetadata", "clustering")
    clustered = {"clusteringColumns": [["id"]], "domainName": "delta.clustering"}
    metadata = write.metadata(properties, columns)
    staged.write_first(write.domain("delta.clustering", clustered), metadata=metadata, features=features)
    body = v1.v1_body(staged, features=features)
    body |= {
        "location": f"{staged.location}/",
        "columns": {"type": "struct", "fields": list(columns)},
        "partition-columns": [],
        "properties": properties | {"delta.checkpointPolicy": "v2"},
        "domain-metadata": {"delta.clustering": clustered},
    }
    made = ok(await v1.http.post(TABLES, json=body))
    assert made["metadata"]["columns"]["fields"][1]["type"]["element-type"] == "string"
    assert "delta.checkpointPolicy" not in made["metadata"]["properties"]
    ok(await v1.commit(staged, staged.stage(1), published=0))
    del body["properties"]["delta.checkpointPolicy"]
    refuses(await v1.http.post(TABLES, json={**body, "name": "u"}), 400, *INVALID, "delta.checkpointPolicy")


def column(**changes: Any) -> dict[str, Any]:
    plain = {"name": "id", "type": "long", "nullable": True, "metadata": {}, **changes}
    return {key: value for key, value in plain.items() if value is not ...}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        *[
            row(39, f"no {key}", [column(**{key: ...})], f"columns.fields[0].{key}")
            for key in ("name", "type", "nullable", "metadata")
        ],
        row(39, "a blank name", [column(name=" ")], "columns.fields[0].name"),
        row(40, "twice", [column(), column(name="ID")], "columns.fields[1]"),
        row(
            40,
            "twice inside",
            [column(type={"type": "struct", "fields": [column(), column(name="Id")]})],
            "columns.fields[0].type.fields[1]",
        ),
        row(41, "void", [column(type="void")], "columns.fields[0].type"),
        row(41, "precision", [column(type="decimal(39,0)")], "columns.fields[0].type.precision"),
        row(41, "scale", [column(type="decimal(3,4)")], "columns.fields[0].type.scale"),
        row(
            42,
            "array",
            [column(type={"type": "array", "element-type": "long"})],
            "columns.fields[0].type.contains-null",
        ),
        *[
            row(42, word, [column(type={**MAP, word: None})], f"columns.fields[0].type.{word}")
            for MAP in [{"type": "map", "key-type": "long", "value-type": "long", "value-contains-null": True}]
            for word in ("key-type", "value-type", "value-contains-null")
        ],
    ],
)
async def test_an_error_in_the_columns_names_the_path(v1: DeltaClient, fields: list[dict[str, Any]], path: str) -> None:
    columns = {"type": "struct", "fields": fields}
    refuses(await v1.create(await written(v1), columns=columns), 400, "InvalidParameterValueException", path)


UNIFORM = {"delta.universalFormat.enabledFormats": "iceberg"}


async def test_case_44_the_property_is_accepted_without_a_block(v1: DeltaClient) -> None:
    ok(await v1.create(await written(v1, properties=UNIFORM), properties=UNIFORM))


@pytest.mark.parametrize(
    "block",
    [
        row(45, "version 2", {"converted-delta-version": 2}),
        row(45, "a base", {"base-converted-delta-version": 0}),
        row(45, "outside", {"metadata-location": "file:///elsewhere/m.json"}),
        row(45, "too long", {"metadata-location": "{location}/" + "m" * 65535}),
    ],
)
async def test_an_invalid_iceberg_block_of_the_first_version_is_refused(v1: DeltaClient, block: dict[str, Any]) -> None:
    staged = await written(v1, properties=UNIFORM)
    whole = {
        "metadata-location": "{location}/metadata/0.json",
        "converted-delta-version": 0,
        "converted-delta-timestamp": START_MS,
        **block,
    }
    whole["metadata-location"] = str(whole["metadata-location"]).format(location=staged.location)
    uniform = {"iceberg": whole}
    refuses(await v1.create(staged, properties=UNIFORM, uniform=uniform), 400, "InvalidParameterValueException")


async def test_case_46_an_external_table_accepts_any_protocol(v1: DeltaClient) -> None:
    body = v1.v1_body(Staged("t", "", "file:///data/ext"), properties={ID: None})
    body |= {"table-type": "EXTERNAL", "protocol": {"min-reader-version": 1, "min-writer-version": 2}}
    body["properties"] = {"k": "v"}
    made = ok(await v1.http.post(TABLES, json=body))
    assert made["metadata"]["table-type"] == "EXTERNAL"
    assert made["metadata"]["properties"]["delta.minReaderVersion"] == "1"
    assert made["commits"] == []
    assert "latest-table-version" not in made
    assert ok(await v1.load()) == made


# --- other cases ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"properties": {"delta.lastUpdateVersion": "1"}}, "delta.lastUpdateVersion"),
        ({"properties": {"delta.lastUpdateVersion": None}}, "delta.lastUpdateVersion"),
        ({"properties": {"delta.lastCommitTimestamp": "1"}}, "delta.lastCommitTimestamp"),
        ({"columns": [{"name": "id", "type_text": "string"}]}, "bigint"),
        ({"columns": [{"name": "no", "type_text": "bigint"}]}, "'id'"),
        ({"columns": [{"name": "id", "type_text": "bigint"}, {"name": "x", "type_text": "int"}]}, "(x)"),
    ],
)
async def test_a_request_that_contradicts_the_first_commit_is_refused(
    spec: DeltaClient, changes: dict[str, Any], word: str
) -> None:
    staged = await written(spec)
    body = spec.classic_body(staged)
    properties = {**body["properties"], **changes.pop("properties", {})}
    body |= {"properties": {key: value for key, value in properties.items() if value is not None}, **changes}
    refuses(await spec.http.post(f"{UNITY}/tables", json=body), 400, "INVALID_PARAMETER_VALUE", word)


async def test_columns_may_be_omitted_or_must_agree(spec: DeltaClient) -> None:
    agreeing = [{"name": "id", "type_text": "bigint", "type_name": "LONG", "position": 0}]
    assert ok(await spec.create(await written(spec), columns=agreeing))["columns"][0]["type_name"] == "LONG"
    empty = await spec.stage("e")
    empty.write_first()
    assert len(ok(await spec.create(empty, columns=[]))["columns"]) == 1


async def test_a_clustered_table_must_state_its_clustering_columns(spec: DeltaClient) -> None:
    clustered = {
        "features": (*write.ALL_FEATURES, "clustering", "domainMetadata"),
    }
    domain = write.domain("delta.clustering", {"clusteringColumns": [["id"]]})
    staged = await written(spec, domain, **clustered)
    refuses(await spec.create(staged), 400, "clusteringColumns")
    for wrong in ("id", '[["x"]]', "[]"):
        refuses(await spec.create(staged, properties={"clusteringColumns": wrong}), 400, "clusteringColumns")
    made = ok(await spec.create(staged, properties={"clusteringColumns": '[["id"]]'}))
    assert made["properties"]["clusteringColumns"] == '[["id"]]'


async def test_a_first_commit_with_files_outside_the_table_is_refused(client: DeltaClient) -> None:
    for path in ("../x/part.parquet", "file:///etc/passwd", "%2e%2e/part.parquet"):
        staged = await written(client, write.add(path))
        refuses(await client.create(staged), 400, *INVALID, "outside")


async def test_a_table_can_be_created_with_a_retention(spec: DeltaClient) -> None:
    assert ok(await spec.create(await written(spec), retention_days=7))["retention_days"] == 7


async def test_a_retried_creation_with_an_idempotency_key_returns_the_original_response(client: DeltaClient) -> None:
    staged = await written(client)
    client.http.headers["idempotency-key"] = "k"
    first = await client.create(staged)
    assert ok(await client.create(staged)) == ok(first)
    assert len(ok(await client.http.get(f"{UNITY}/tables", params=CLASSIC))["tables"]) == 1
