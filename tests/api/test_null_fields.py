"""A null value in a request body is treated as absent, as in the clients' own parsers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import inspect as shapes

from moorage.api.iceberg.api import iceberg
from moorage.api.iceberg.bodies import EXAMPLE_COMMIT, EXAMPLE_SCHEMA
from moorage.api.iceberg.views import EXAMPLE_VERSION
from moorage.api.lance.api import lance
from tests.api.house import House, done
from tests.api.iceberg.lake import Lake
from tests.api.routes import EVERY_ROUTE


def fields_of(shape: shapes.Type, seen: set[type]) -> Iterator[tuple[str, shapes.Field]]:
    """Every field of a body, with the name of its struct."""
    if isinstance(shape, shapes.StructType):
        if shape.cls in seen:
            return
        seen.add(shape.cls)
        for field in shape.fields:
            yield shape.cls.__name__, field
            yield from fields_of(field.type, seen)
    for part in ("type", "item_type", "item_types", "types", "value_type"):
        inner = getattr(shape, part, ())
        for each in inner if isinstance(inner, tuple) else (inner,):
            if isinstance(each, shapes.Type):
                yield from fields_of(each, seen)


def accepts_null(shape: shapes.Type) -> bool:
    match shape:
        case shapes.Metadata(type=inner):
            return accepts_null(inner)
        case shapes.UnionType(types=types):
            return any(map(accepts_null, types))
    return isinstance(shape, shapes.AnyType | shapes.NoneType)


REQUIRED = {"QueryTableRequest.vector", "AnalyzeTableQueryPlanRequest.vector"}
"""Fields that the specification requires, although the server does not."""


@pytest.mark.parametrize("api", [iceberg, lance], ids=lambda api: api.name)
def test_every_optional_field_of_a_body_accepts_null(api: Any) -> None:
    seen: set[type] = set()
    bodies = [place.route.body for place in EVERY_ROUTE if place.api is api]
    fields = [found for body in bodies for found in fields_of(shapes.type_info(body), seen)]
    assert len(fields) > 50
    refusing = [
        f"{name}.{field.encode_name}" for name, field in fields if not field.required and not accepts_null(field.type)
    ]
    assert set(refusing) <= REQUIRED


VIEW = {"name": "v", "schema": EXAMPLE_SCHEMA, "view-version": EXAMPLE_VERSION}
TABLE = {"name": "t2", "schema": EXAMPLE_SCHEMA}
UPDATES = EXAMPLE_COMMIT["updates"]
SALES = "/namespaces/sales"
NEW_TABLE_NULLS = dict.fromkeys(("location", "partition-spec", "write-order", "stage-create", "properties"))
SCAN_NULLS = dict.fromkeys(("snapshot-id", "select", "filter", "case-sensitive", "use-snapshot-schema", "stats-fields"))

ACCEPTED: list[tuple[str, Any]] = [
    (f"{SALES}/tables/t", {"updates": UPDATES}),
    (f"{SALES}/tables/t", {"updates": UPDATES, "requirements": None, "identifier": None}),
    (f"{SALES}/tables/t", {"updates": None, "requirements": []}),
    (f"{SALES}/tables/t", {}),
    ("/transactions/commit", {"table-changes": [{"identifier": {"namespace": ["sales"], "name": "t"}}]}),
    (f"{SALES}/tables", TABLE),
    (f"{SALES}/tables", {**TABLE, **NEW_TABLE_NULLS}),
    (f"{SALES}/views", VIEW),
    (f"{SALES}/views", {**VIEW, "properties": None, "location": None}),
    (f"{SALES}/tables/t/plan", SCAN_NULLS),
    ("/namespaces", {"namespace": ["n"], "properties": None}),
    (f"{SALES}/properties", {"removals": None, "updates": None}),
    (f"{SALES}/properties", {}),
]
"""Paths of the Iceberg API, and bodies that Java's parsers accept or that differ from such a body only by nulls."""


@pytest.mark.parametrize(("path", "body"), ACCEPTED, ids=lambda given: str(given)[:60])
async def test_absent_and_null_fields_are_accepted(house: House, tmp_path: Any, path: str, body: Any) -> None:
    await house.console.make("lake")
    lake = Lake(house, tmp_path / "data")
    await lake.create_space("sales")
    await lake.create("t")
    answer = await lake.ask("POST", path, body)
    assert answer.status_code in (200, 204), answer.text


async def test_a_table_is_registered_with_overwrite_null(house: House, tmp_path: Any) -> None:
    await house.console.make("lake")
    lake = Lake(house, tmp_path / "data")
    await lake.create_space("sales")
    file = done(await lake.create("t"))["metadata-location"]
    assert (await lake.ask("POST", f"{SALES}/tables/t/unregister")).status_code == 200
    done(await lake.ask("POST", f"{SALES}/register", {"name": "t", "metadata-location": file, "overwrite": None}))
