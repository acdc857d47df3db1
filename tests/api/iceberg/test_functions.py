"""Functions that were created through the Unity API, as Iceberg clients see them."""

from __future__ import annotations

from typing import Any

from tests.api.iceberg.lake import SPACE, Lake, refused, to_space

UNITY = "/api/2.1/unity-catalog/functions"


def routine(name: str, *types: str, **given: Any) -> dict[str, Any]:
    parameters = [
        {"name": f"p{at}", "type_text": text, "type_json": "{}", "type_name": "INT", "position": at}
        for at, text in enumerate(types)
    ]
    return {
        "name": name,
        "catalog_name": "lake",
        "schema_name": "sales",
        "input_params": {"parameters": parameters},
        "data_type": "INT",
        "full_data_type": "INT",
        "routine_body": "SQL",
        "routine_definition": "p0 + 1",
        "parameter_style": "S",
        "is_deterministic": True,
        "sql_data_access": "CONTAINS_SQL",
        "is_null_call": True,
        "security_type": "DEFINER",
        "specific_name": name,
        **given,
    }


async def make(lake: Lake, name: str, *types: str, **given: Any) -> None:
    made = await lake.house.console.http.post(UNITY, json={"function_info": routine(name, *types, **given)})
    assert made.status_code == 200, made.text


async def load(lake: Lake, name: str) -> Any:
    answer = await lake.ask("GET", f"{to_space(*SPACE)}/functions/{name}")
    assert answer.status_code == 200, answer.text
    return answer.json()["metadata"]


async def test_a_function_in_sql_has_iceberg_function_metadata(lake: Lake) -> None:
    await make(lake, "plus_one", "int", comment="one more")
    found = await load(lake, "plus_one")
    assert (found["format-version"], found["doc"], len(found["function-uuid"])) == (1, "one more", 36)
    (definition,) = found["definitions"]
    (version,) = definition.pop("versions")
    assert version.pop("timestamp-ms") == found["definition-log"][0]["timestamp-ms"] > 0
    assert version == {
        "version-id": 1,
        "representations": [{"type": "sql", "dialect": "spark", "sql": "p0 + 1"}],
        "deterministic": True,
        "on-null-input": "call",
    }
    assert definition == {
        "definition-id": "int",
        "specific-name": "plus_one",
        "parameters": [{"name": "p0", "type": "int"}],
        "return-type": "int",
        "current-version-id": 1,
        "function-type": "udf",
    }


async def test_types_are_written_as_iceberg_names_them(lake: Lake) -> None:
    nested = "array<map<string,struct<a:bigint,b:timestamp_ntz>>>"
    await make(lake, "many", "decimal(9,2)", "timestamp", "smallint", nested)
    (definition,) = (await load(lake, "many"))["definitions"]
    assert definition["definition-id"] == "decimal(9,2),timestamptz,int,list<map<string,struct<a:long,b:timestamp>>>"
    assert definition["parameters"][3]["type"]["element"]["key"] == "string"


async def test_a_function_that_returns_a_table_lists_its_columns(lake: Lake) -> None:
    column = {"name": "n", "type_text": "bigint", "type_json": "{}", "type_name": "LONG", "position": 0}
    given = {"data_type": "TABLE_TYPE", "full_data_type": "TABLE", "return_params": {"parameters": [column]}}
    await make(lake, "numbers", **given)
    (definition,) = (await load(lake, "numbers"))["definitions"]
    assert definition["function-type"] == "udtf"
    assert definition["return-type"] == {"type": "struct", "fields": [{"name": "n", "type": "long"}]}


async def test_functions_that_iceberg_cannot_describe_are_neither_listed_nor_found(lake: Lake) -> None:
    await make(lake, "plus_one", "int")
    await make(lake, "in_python", "int", routine_body="EXTERNAL", external_language="python")
    await make(lake, "of_intervals", "interval day")
    listed = await lake.ask("GET", f"{to_space(*SPACE)}/functions")
    assert listed.json() == {"identifiers": [["sales", "plus_one"]], "next-page-token": None}
    for name in ("in_python", "of_intervals", "nothing"):
        answer = await lake.ask("GET", f"{to_space(*SPACE)}/functions/{name}")
        refused(answer, 404, "NoSuchFunctionException")
    refused(await lake.ask("GET", f"{to_space('no')}/functions"), 404, "NoSuchNamespaceException")


async def test_functions_are_listed_over_three_pages(lake: Lake) -> None:
    for number in range(5):
        await make(lake, f"f{number}", "int")
    found, token, page = list[Any](), "", dict[str, Any]()
    for size in (2, 2, 1):
        page = (await lake.ask("GET", f"{to_space(*SPACE)}/functions", pageToken=token, pageSize=2)).json()
        assert len(page["identifiers"]) == size
        found, token = found + page["identifiers"], page["next-page-token"]
    assert found == [["sales", f"f{number}"] for number in range(5)]
    assert page["next-page-token"] is None
