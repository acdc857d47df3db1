"""docs/architecture.md names files and functions that exist, and leaves out no room."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
SOURCE = HOUSE / "src/moorage"
TEXT = (HOUSE / "docs/architecture.md").read_text(encoding="utf-8")
QUOTED = re.compile(r"`([\w/{},*.]+\.py)(?:: ([\w.]+))?`")


def files(named: str) -> list[Path]:
    """The files that a name may mean: a path below src/moorage, usecases or the repository, or a bare file name."""
    known = [base / named for base in (SOURCE, SOURCE / "usecases", SOURCE / "ledger", HOUSE)]
    return [path for path in (*known, *SOURCE.rglob(named)) if path.exists()]


@pytest.mark.parametrize(("named", "symbol"), sorted(set(QUOTED.findall(TEXT))))
def test_a_named_file_and_its_symbol_exist(named: str, symbol: str) -> None:
    found = files(named)
    assert found, named
    assert not symbol or any(re.search(rf"\b{re.escape(symbol)}\b", path.read_text()) for path in found), symbol


def test_every_room_is_described() -> None:
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert {room for room in rooms if f"`{room}" not in TEXT} == set()
    packages = {path.name for path in (SOURCE / "usecases").iterdir() if (path / "__init__.py").exists()}
    assert {package for package in packages if f"`{package}" not in TEXT} == set()


def test_every_package_of_use_cases_has_an_import_rule() -> None:
    contract = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    ruled = {line.partition(":")[0] for line in contract["rooms"]}
    inside = (SOURCE / "usecases").iterdir()
    names = {path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()} - {"__init__"}
    assert {f"usecases.{name}" for name in names} <= ruled


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_the_page_is_linked(page: str) -> None:
    assert "architecture.md" in (HOUSE / page).read_text()
