"""An external Delta table that is registered without columns has the columns of its log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moorage.testing import delta_writer as write
from moorage.testing.builders import START_MS
from tests.api.house import House, done, open_house
from tests.api.unity.unity import Unity, invalid, refused

LONG = {"name": "id", "type": "long", "nullable": False, "metadata": {"comment": "which one"}}
PRICE = {"name": "price", "type": "decimal(10,2)", "nullable": True, "metadata": {}}
DAY = {"name": "day", "type": "date", "nullable": True, "metadata": {}}
PLAIN = write.protocol((), reader=1, writer=2)


@pytest.fixture
def lakes(tmp_path: Path) -> Path:
    folder = tmp_path / "lakes"
    folder.mkdir()
    return folder


@pytest.fixture
async def house(tmp_path: Path, lakes: Path) -> AsyncIterator[House]:
    async with open_house(tmp_path / "data", external_folder=lakes) as house:
        yield house


def written(folder: Path, *columns: write.Action, partition_columns: tuple[str, ...] = ()) -> str:
    """Write a Delta table with one version and return its location."""
    info, described = write.commit_info(START_MS), write.metadata({}, columns, partition_columns=partition_columns)
    write.write_first(folder, info, PLAIN, described, write.add())
    return folder.as_uri()


async def columns(uc: Unity, location: str, **given: Any) -> list[tuple[str, str, bool, int | None]]:
    """Register the table `t` at a location and return its columns."""
    shown = (await uc.external("t", location, **given))["columns"]
    assert done(await uc.get("/tables/lake.s.t"))["columns"] == shown
    return [(each["name"], each["type_text"], each["nullable"], each["partition_index"]) for each in shown]


@pytest.fixture(autouse=True)
async def _lake(uc: Unity) -> None:
    await uc.schema()


@pytest.mark.parametrize("given", [{"columns": []}, {"columns": None}])
async def test_columns_are_read_from_the_log_if_none_are_given(uc: Unity, lakes: Path, given: dict[str, Any]) -> None:
    location = written(lakes / "sales", LONG, PRICE, DAY, partition_columns=("day",))
    assert await columns(uc, location, **given) == [
        ("id", "bigint", False, None),
        ("price", "decimal(10,2)", True, None),
        ("day", "date", True, 0),
    ]


async def test_columns_are_those_of_the_newest_version(uc: Unity, lakes: Path) -> None:
    location = written(lakes / "sales", LONG)
    wider = write.lines(write.commit_info(START_MS + 1), write.metadata({}, (LONG, PRICE)))
    (lakes / "sales" / "_delta_log" / f"{1:020}.json").write_bytes(wider)
    assert [name for name, *_ in await columns(uc, location)] == ["id", "price"]


async def test_given_columns_are_not_compared_with_the_log(uc: Unity, lakes: Path) -> None:
    location = written(lakes / "sales", LONG)
    given = [{"name": "other", "type_text": "string", "nullable": True}]
    assert await columns(uc, location, columns=given) == [("other", "string", True, None)]


async def test_a_folder_without_a_log_is_registered_without_columns(uc: Unity, lakes: Path) -> None:
    (lakes / "empty").mkdir()
    assert await columns(uc, (lakes / "empty").as_uri()) == []


async def test_a_table_that_this_server_cannot_reach_is_registered_without_columns(uc: Unity, tmp_path: Path) -> None:
    assert await columns(uc, written(tmp_path / "elsewhere", LONG)) == []


async def test_the_columns_of_a_table_of_another_format_are_not_read(uc: Unity, lakes: Path) -> None:
    assert await columns(uc, written(lakes / "sales", LONG), data_source_format="PARQUET") == []


async def test_a_damaged_log_is_refused_with_the_reason(uc: Unity, lakes: Path) -> None:
    location = written(lakes / "sales", LONG)
    (lakes / "sales" / "_delta_log" / f"{1:020}.json").write_bytes(b"not JSON\n")
    answer = await uc.post(
        "/tables",
        {
            "name": "t",
            "catalog_name": "lake",
            "schema_name": "s",
            "columns": [],
            "table_type": "EXTERNAL",
            "data_source_format": "DELTA",
            "storage_location": location,
        },
    )
    assert "_delta_log/00000000000000000001.json" in invalid(answer)
    refused(await uc.get("/tables/lake.s.t"), 404, "TABLE_DOES_NOT_EXIST", "TABLE_NOT_FOUND")


async def test_a_table_of_another_catalog_is_registered_only_with_its_columns(uc: Unity, lakes: Path) -> None:
    folder = lakes / "theirs"
    theirs = write.metadata(write.configuration("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d50"))
    write.write_first(folder, write.commit_info(START_MS), write.protocol(), theirs)
    body = {"name": "t", "catalog_name": "lake", "schema_name": "s", "table_type": "EXTERNAL"}
    body |= {"data_source_format": "DELTA", "storage_location": folder.as_uri()}
    refused(await uc.post("/tables", body), 400, "UNIMPLEMENTED")
    given = [{"name": "id", "type_text": "bigint", "nullable": True}]
    assert await columns(uc, folder.as_uri(), columns=given) == [("id", "bigint", True, None)]
