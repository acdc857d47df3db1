"""Error messages speak of schemas and of query parameters, as Unity's clients do."""

from __future__ import annotations

from tests.api.house import done
from tests.api.unity.unity import IN_S, Unity, external, invalid, refused

DELTA = "/delta/v1/catalogs/lake/schemas"
MISSING = ("SCHEMA_DOES_NOT_EXIST", "SCHEMA_NOT_FOUND")


async def test_errors_speak_of_schemas(uc: Unity) -> None:
    await uc.schema()
    nosuch = "schema 'lake.nosuch' does not exist"
    assert refused(await uc.get("/schemas/lake.nosuch"), 404, *MISSING) == nosuch
    assert refused(await uc.get("/tables", **IN_S | {"schema_name": "nosuch"}), 404, *MISSING) == nosuch
    assert refused(await uc.post("/tables", external("t", schema_name="nosuch")), 404, *MISSING) == nosuch
    answer = await uc.post(f"{DELTA}/nosuch/staging-tables", {"name": "t"})
    assert answer.json()["error"] == {"message": nosuch, "type": "NoSuchSchemaException", "code": 404}
    taken = await uc.post("/schemas", {"name": "s", "catalog_name": "lake"})
    assert refused(taken, 400, "SCHEMA_ALREADY_EXISTS") == "schema 'lake.s' already exists"
    message = refused(await uc.delete("/catalogs/lake"), 400, "FAILED_PRECONDITION")
    assert message == "catalog 'lake' still contains schema 's'; drop its contents first, or delete it with force=true"


async def test_the_error_for_a_missing_parameter_names_it(uc: Unity) -> None:
    await uc.schema()
    assert invalid(await uc.get("/tables", schema_name="s")) == "the query parameter catalog_name is required"
    assert invalid(await uc.get("/schemas")) == "the query parameter catalog_name is required"
    assert invalid(await uc.post("/schemas", {"name": "t"})) == "catalog_name is required"


async def test_a_table_whose_columns_cannot_be_read_is_registered_with_a_warning(uc: Unity) -> None:
    """Spark registers external Delta tables without columns, so it is no error."""
    await uc.schema()
    for body, warns in (
        (external("outside"), True),
        (external("described", columns=[{"name": "id", "type_text": "bigint"}]), False),
        (external("files", data_source_format="PARQUET"), False),
    ):
        answer = await uc.post("/tables", body)
        done(answer)
        assert ("warning" in answer.headers) == warns
        if warns:
            assert answer.headers["warning"].startswith('299 moorage "the table has no columns')
            assert "--external-folder" in answer.headers["warning"]
