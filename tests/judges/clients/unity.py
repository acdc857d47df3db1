"""unitycatalog-client, on external Delta tables: it changes the catalog, and neither reads nor writes rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from unitycatalog.client import (
    ApiClient,
    ColumnInfo,
    Configuration,
    CreateSchema,
    CreateTable,
    GenerateTemporaryTableCredential,
    SchemasApi,
    TablesApi,
    TemporaryCredentialsApi,
)
from unitycatalog.client.exceptions import NotFoundException

from tests.judges.steps import Place, main

T = TypeVar("T")


class UnityClient:
    def __init__(self, at: Place) -> None:
        self.host = f"{at.url}/api/2.1/unity-catalog"
        self.at = at
        self.full_name = f"lake.{at.namespace}.unity"
        schema = CreateSchema(name=at.namespace, catalog_name="lake")
        self.run(lambda client: SchemasApi(client).create_schema(schema))

    def run(self, call: Callable[[ApiClient], Awaitable[T]]) -> T:
        async def once() -> T:
            async with ApiClient(Configuration(host=self.host)) as client:
                return await call(client)

        return asyncio.run(once())

    def create(self) -> None:
        column = {"type_name": "LONG", "type_text": "bigint", "type_json": '{"name":"id","type":"long"}'}
        table = CreateTable(
            name="unity",
            catalog_name="lake",
            schema_name=self.at.namespace,
            table_type="EXTERNAL",
            data_source_format="DELTA",
            columns=[ColumnInfo(name="id", position=0, **column)],
            storage_location=f"{'file://' if self.at.is_local else ''}{self.at.folder}/unity",
        )
        self.run(lambda client: TablesApi(client).create_table(table))

    def read(self) -> None:
        shown = self.run(lambda client: TablesApi(client).get_table(self.full_name))
        listed = self.run(lambda client: TablesApi(client).list_tables("lake", self.at.namespace))
        assert [table.table_id for table in listed.tables] == [shown.table_id]
        if not self.at.is_local and self.at.key is None:
            wanted = GenerateTemporaryTableCredential(table_id=shown.table_id, operation="READ")
            api = TemporaryCredentialsApi
            given = self.run(lambda client: api(client).generate_temporary_table_credentials(wanted))
            assert given.aws_temp_credentials.session_token

    def drop(self) -> None:
        self.run(lambda client: TablesApi(client).delete_table(self.full_name))
        try:
            self.run(lambda client: TablesApi(client).get_table(self.full_name))
        except NotFoundException:
            return
        raise AssertionError("the table still exists")


if __name__ == "__main__":
    main(UnityClient)
