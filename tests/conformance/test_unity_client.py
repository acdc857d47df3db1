"""Unity's Python client against a real server, with every operation that the server supports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from unitycatalog.client import (
    ApiClient,
    CatalogsApi,
    ColumnInfo,
    Configuration,
    CreateCatalog,
    CreateFunction,
    CreateFunctionRequest,
    CreateModelVersion,
    CreateRegisteredModel,
    CreateSchema,
    CreateTable,
    CreateVolumeRequestContent,
    Dependency,
    DependencyList,
    FinalizeModelVersion,
    FunctionParameterInfo,
    FunctionParameterInfos,
    FunctionsApi,
    GenerateTemporaryModelVersionCredential,
    GenerateTemporaryPathCredential,
    GenerateTemporaryTableCredential,
    GenerateTemporaryVolumeCredential,
    MetastoresApi,
    ModelVersionsApi,
    RegisteredModelsApi,
    SchemasApi,
    TableDependency,
    TablesApi,
    TemporaryCredentialsApi,
    UpdateCatalog,
    UpdateModelVersion,
    UpdateRegisteredModel,
    UpdateSchema,
    UpdateVolumeRequestContent,
    VolumesApi,
)
from unitycatalog.client.exceptions import ApiException, BadRequestException, NotFoundException

from moorage.client.lance import Lake
from moorage.testing.server import ServerProcess

LONG = '{"name":"id","type":"long","nullable":false,"metadata":{}}'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("unity") / "data") as server:
        yield server


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[ApiClient]:
    async with ApiClient(Configuration(host=f"{server.url}/api/2.1/unity-catalog")) as client:
        yield client


@pytest.fixture
async def schema(client: ApiClient, request: pytest.FixtureRequest) -> str:
    """Creates the schema `main` in a catalog for this test only, and returns the name of the catalog."""
    name = request.node.name.removeprefix("test_")
    await CatalogsApi(client).create_catalog(CreateCatalog(name=name))
    await SchemasApi(client).create_schema(CreateSchema(name="main", catalog_name=name))
    return str(name)


def delta(catalog: str, name: str, **given: Any) -> CreateTable:
    columns = [ColumnInfo(name="id", type_text="bigint", type_name="LONG", type_json=LONG, position=0, nullable=False)]
    return CreateTable(
        **{
            "name": name,
            "catalog_name": catalog,
            "schema_name": "main",
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "columns": columns,
            "storage_location": f"file:///lakes/{catalog}/{name}",
            "properties": {"a": "b"},
            **given,
        }
    )


async def every_page(list_page: Callable[[str | None], Awaitable[Any]], what: str) -> list[list[Any]]:
    pages, token = [], None
    while True:
        page = await list_page(token)
        pages.append(getattr(page, what))
        token = page.next_page_token
        if not token:
            return pages


async def test_a_catalog_is_created_described_paged_and_deleted(client: ApiClient, server: ServerProcess) -> None:
    api = CatalogsApi(client)
    root = f"file://{server.data.resolve()}/managed/c"
    created = await api.create_catalog(
        CreateCatalog(name="catalogs", comment="c", properties={"a": "b"}, storage_root=root)
    )
    assert (created.owner, created.created_by, created.updated_by) == ("local", "local", "local")
    assert created.storage_location == f"{root}/__unitystorage/catalogs/{created.id}"
    assert await api.get_catalog("CATALOGS") == created
    changed = await api.update_catalog("catalogs", UpdateCatalog(comment="d", new_name="renamed"))
    assert (changed.id, changed.name, changed.comment, changed.properties) == (created.id, "renamed", "d", {"a": "b"})
    await api.create_catalog(CreateCatalog(name="another"))
    pages = await every_page(lambda token: api.list_catalogs(max_results=1, page_token=token), "catalogs")
    assert {"another", "renamed"} <= {page[0].name for page in pages}
    await SchemasApi(client).create_schema(CreateSchema(name="s", catalog_name="renamed"))
    with pytest.raises(BadRequestException, match="FAILED_PRECONDITION"):
        await api.delete_catalog("renamed")
    await api.delete_catalog("renamed", force=True)
    with pytest.raises(NotFoundException, match="CATALOG_NOT_FOUND"):
        await api.get_catalog("renamed")


async def test_a_schema_is_created_described_listed_and_deleted(client: ApiClient, schema: str) -> None:
    api = SchemasApi(client)
    created = await api.create_schema(CreateSchema(name="Second", catalog_name=schema, properties={"a": "b"}))
    assert (created.full_name, created.catalog_name, created.properties) == (f"{schema}.Second", schema, {"a": "b"})
    assert await api.get_schema(f"{schema}.second") == created
    changed = await api.update_schema(f"{schema}.second", UpdateSchema(comment="c", new_name="third"))
    assert (changed.schema_id, changed.full_name, changed.comment) == (created.schema_id, f"{schema}.third", "c")
    listed = await api.list_schemas(catalog_name=schema)
    assert [item.name for item in listed.schemas] == ["main", "third"]
    with pytest.raises(BadRequestException, match="SCHEMA_ALREADY_EXISTS"):
        await api.create_schema(CreateSchema(name="MAIN", catalog_name=schema))
    await api.delete_schema(f"{schema}.third")
    with pytest.raises(NotFoundException, match="SCHEMA_NOT_FOUND"):
        await api.get_schema(f"{schema}.third")


async def test_a_table_is_registered_paged_deleted_and_registered_again(client: ApiClient, schema: str) -> None:
    api = TablesApi(client)
    created = await api.create_table(delta(schema, "Orders"))
    assert (created.table_type, created.data_source_format) == ("EXTERNAL", "DELTA")
    assert created.storage_location == f"file:///lakes/{schema}/Orders"
    assert created.columns[0].type_name == "LONG"
    assert (created.columns[0].type_precision, created.columns[0].type_scale, created.columns[0].position) == (0, 0, 0)
    full_name = f"{schema}.main.orders"
    assert await api.get_table(full_name, read_streaming_table_as_managed=True) == created
    for name in ("b", "c", "d"):
        await api.create_table(delta(schema, name, data_source_format="PARQUET", columns=[]))
    pages = await every_page(lambda token: api.list_tables(schema, "main", max_results=2, page_token=token), "tables")
    assert [[table.name for table in page] for page in pages] == [["b", "c"], ["d", "Orders"]]
    with pytest.raises(ApiException, match="TABLE_ALREADY_EXISTS") as taken:
        await api.create_table(delta(schema, "ORDERS", storage_location="file:///lakes/elsewhere"))
    assert taken.value.status == 409
    with pytest.raises(BadRequestException, match="overlaps"):
        await api.create_table(delta(schema, "e", storage_location=f"file:///lakes/{schema}/Orders/inner"))
    await api.delete_table(full_name)
    with pytest.raises(NotFoundException, match="TABLE_NOT_FOUND"):
        await api.get_table(full_name)
    again = await api.create_table(delta(schema, "Orders"))
    assert again.table_id != created.table_id


async def test_a_schema_with_tables_of_every_format_is_listed(
    client: ApiClient, schema: str, server: ServerProcess
) -> None:
    """Its enum of formats has no LANCE, and one value outside of it makes the whole page fail."""
    rows = pa.table({"id": [1, 2]})
    lance.write_dataset(rows, namespace_client=Lake(server.url), table_id=[schema, "main", "lance"])
    api = TablesApi(client)
    await api.create_table(delta(schema, "delta"))
    iceberg = await api.create_table(delta(schema, "iceberg", data_source_format="ICEBERG"))
    assert iceberg.data_source_format == "ICEBERG"
    tables = (await api.list_tables(schema, "main")).tables
    assert [(each.name, each.data_source_format) for each in tables] == [
        ("delta", "DELTA"),
        ("iceberg", "ICEBERG"),
        ("lance", None),
    ]
    assert (await api.get_table(f"{schema}.main.lance")).data_source_format is None


async def test_views_keep_their_text_and_dependencies(client: ApiClient, schema: str) -> None:
    api = TablesApi(client)
    await api.create_table(delta(schema, "t"))
    reads = DependencyList(
        dependencies=[Dependency(table=TableDependency(table_full_name=f"{schema}.main.t"), function=None)]
    )
    for kind in ("VIEW", "METRIC_VIEW"):
        created = await api.create_table(
            delta(
                schema,
                kind.lower(),
                table_type=kind,
                data_source_format=None,
                storage_location=None,
                view_definition="select id from t",
                view_dependencies=reads,
            )
        )
        assert (created.table_type, created.view_definition, created.view_dependencies) == (
            kind,
            "select id from t",
            reads,
        )
        assert await api.get_table(f"{schema}.main.{kind}") == created


async def test_a_managed_volume_gets_a_folder_and_an_external_one_keeps_its_own(
    client: ApiClient, schema: str, tmp_path: Path
) -> None:
    api = VolumesApi(client)
    common = {"catalog_name": schema, "schema_name": "main"}
    given = await api.create_volume(CreateVolumeRequestContent(name="given", volume_type="MANAGED", **common))
    location = f"file://{tmp_path}/brought"
    brought = await api.create_volume(
        CreateVolumeRequestContent(
            name="brought", volume_type="EXTERNAL", storage_location=location, comment="c", **common
        )
    )
    assert brought.storage_location == location
    assert given.storage_location.endswith(f"/volumes/{given.volume_id}")
    assert await api.get_volume(f"{schema}.main.given") == given
    changed = await api.update_volume(f"{schema}.main.given", UpdateVolumeRequestContent(new_name="taken", comment="d"))
    assert (changed.volume_id, changed.full_name) == (given.volume_id, f"{schema}.main.taken")
    listed = await api.list_volumes(schema, "main")
    assert [volume.name for volume in listed.volumes] == ["brought", "taken"]
    await api.delete_volume(f"{schema}.main.taken")
    with pytest.raises(NotFoundException):
        await api.get_volume(f"{schema}.main.taken")


async def test_a_function_is_returned_as_it_was_created(client: ApiClient, schema: str) -> None:
    api = FunctionsApi(client)
    x = FunctionParameterInfo(name="x", type_text="int", type_json="{}", type_name="INT", position=0)
    function = CreateFunction(
        name="plus",
        catalog_name=schema,
        schema_name="main",
        input_params=FunctionParameterInfos(parameters=[x]),
        data_type="INT",
        full_data_type="INT",
        routine_body="EXTERNAL",
        routine_definition="return x + 1",
        parameter_style="S",
        is_deterministic=True,
        sql_data_access="NO_SQL",
        is_null_call=False,
        security_type="DEFINER",
        specific_name="plus",
        properties="null",
        external_language="python",
    )
    created = await api.create_function(CreateFunctionRequest(function_info=function))
    assert (created.routine_definition, created.input_params.parameters) == ("return x + 1", [x])
    assert await api.get_function(f"{schema}.main.plus") == created
    assert (await api.list_functions(schema, "main")).functions == [created]
    await api.delete_function(f"{schema}.main.plus")
    with pytest.raises(NotFoundException):
        await api.get_function(f"{schema}.main.plus")


async def test_a_model_has_versions_until_it_is_deleted(client: ApiClient, schema: str) -> None:
    models, versions = RegisteredModelsApi(client), ModelVersionsApi(client)
    name = f"{schema}.main.churn"
    created = await models.create_registered_model(
        CreateRegisteredModel(name="churn", catalog_name=schema, schema_name="main", comment="c")
    )
    assert await models.get_registered_model(name) == created
    new = CreateModelVersion(model_name="churn", catalog_name=schema, schema_name="main", source="s", run_id="r")
    first, second = [await versions.create_model_version(new) for _ in range(2)]
    assert (first.version, second.version, first.status) == (1, 2, "PENDING_REGISTRATION")
    ready = await versions.finalize_model_version(name, 1, FinalizeModelVersion(full_name=name, version=1))
    assert ready.status == "READY"
    await versions.update_model_version(name, 1, UpdateModelVersion(comment="best"))
    assert (await versions.get_model_version(name, 1)).comment == "best"
    pages = await every_page(
        lambda token: versions.list_model_versions(name, max_results=1, page_token=token), "model_versions"
    )
    assert [[version.version for version in page] for page in pages] == [[1], [2]]
    with pytest.raises(ApiException, match="FAILED_PRECONDITION"):
        await models.delete_registered_model(name)
    await versions.delete_model_version(name, 2)
    renamed = await models.update_registered_model(name, UpdateRegisteredModel(new_name="leavers", comment="d"))
    assert (renamed.id, renamed.full_name) == (created.id, f"{schema}.main.leavers")
    listed = await models.list_registered_models(catalog_name=schema, schema_name="main")
    assert listed.registered_models == [renamed]
    assert renamed in (await models.list_registered_models()).registered_models
    await models.delete_registered_model(f"{schema}.main.leavers", force=True)


async def test_files_on_local_disk_need_no_credentials(client: ApiClient, schema: str) -> None:
    api = TemporaryCredentialsApi(client)
    table = await TablesApi(client).create_table(delta(schema, "t"))
    for_table = GenerateTemporaryTableCredential(table_id=table.table_id, operation="READ_WRITE")
    given = await api.generate_temporary_table_credentials(for_table)
    assert (given.url, given.expiration_time, given.aws_temp_credentials) == (table.storage_location, None, None)
    for_path = GenerateTemporaryPathCredential(url="file:///x/y", operation="PATH_CREATE_TABLE")
    assert (await api.generate_temporary_path_credentials(for_path)).url == "file:///x/y"
    volume = await VolumesApi(client).create_volume(
        CreateVolumeRequestContent(name="v", catalog_name=schema, schema_name="main", volume_type="MANAGED")
    )
    for_volume = GenerateTemporaryVolumeCredential(volume_id=volume.volume_id, operation="READ_VOLUME")
    assert (await api.generate_temporary_volume_credentials(for_volume)).url == volume.storage_location
    parent = {"catalog_name": schema, "schema_name": "main"}
    await RegisteredModelsApi(client).create_registered_model(CreateRegisteredModel(name="m", **parent))
    version = await ModelVersionsApi(client).create_model_version(
        CreateModelVersion(model_name="m", source="s", **parent)
    )
    for_version = GenerateTemporaryModelVersionCredential(
        model_name="m", version=1, operation="READ_WRITE_MODEL_VERSION", **parent
    )
    assert (await api.generate_temporary_model_version_credentials(for_version)).url == version.storage_location


async def test_the_metastore_is_the_same_after_a_restart(client: ApiClient, server: ServerProcess) -> None:
    before = await MetastoresApi(client).summary()
    server.restart()
    async with ApiClient(Configuration(host=f"{server.url}/api/2.1/unity-catalog")) as restarted:
        assert await MetastoresApi(restarted).summary() == before


async def test_of_twelve_clients_that_create_one_table_one_wins(server: ServerProcess) -> None:
    configuration = Configuration(host=f"{server.url}/api/2.1/unity-catalog")
    clients = [ApiClient(configuration) for _ in range(12)]
    try:
        await CatalogsApi(clients[0]).create_catalog(CreateCatalog(name="race"))
        await SchemasApi(clients[0]).create_schema(CreateSchema(name="main", catalog_name="race"))
        for round_ in range(5):
            answers = await asyncio.gather(
                *[
                    TablesApi(client).create_table(delta("race", f"t{round_}", storage_location=f"/r/{round_}/{n}"))
                    for n, client in enumerate(clients)
                ],
                return_exceptions=True,
            )
            lost = [answer for answer in answers if isinstance(answer, BaseException)]
            assert len(lost) == 11
            assert all(isinstance(each, ApiException) and "TABLE_ALREADY_EXISTS" in str(each) for each in lost)
            assert (await TablesApi(clients[0]).get_table(f"race.main.t{round_}")).name == f"t{round_}"
    finally:
        for client in clients:
            await client.close()
