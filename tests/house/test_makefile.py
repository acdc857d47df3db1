"""The commands of the Makefile, as `make -n` would run them."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ("test-delta", "test-iceberg", "test-lance")


def make(*args: str) -> str:
    """The output of make. MAKEFLAGS of an outer make, such as its number of jobs, are not passed on."""
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    done = subprocess.run(["make", *args], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def paths_of(target: str) -> list[Path]:
    """The folders and files that a target passes to pytest."""
    return [ROOT / word for word in make("-n", target).split() if word.startswith("tests/")]


@pytest.mark.parametrize("target", ["test", *FORMATS])
def test_the_number_of_test_processes_can_be_chosen(target: str) -> None:
    assert set(re.findall(r"pytest -n (\d+)", make("-n", target))) == {"2"}
    assert set(re.findall(r"pytest -n (\d+)", make("-n", target, "WORKERS=4"))) == {"4"}


@pytest.mark.parametrize("target", FORMATS)
def test_a_format_names_only_tests_that_exist(target: str) -> None:
    found = paths_of(target)
    assert len(found) > 3
    assert [path for path in found if not path.exists()] == []


def test_every_test_of_a_format_runs_in_the_target_of_a_format() -> None:
    given = [path for target in FORMATS for path in paths_of(target)]
    folders = ("unit/formats", "api/delta", "api/iceberg", "api/lance", "api/unity", "conformance")
    tests = [path for folder in folders for path in (ROOT / "tests" / folder).rglob("test_*.py")]
    assert [str(path) for path in tests if not any(path.is_relative_to(each) for each in given)] == []


def test_help_lists_every_command_that_is_described() -> None:
    described = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(FORMATS) < set(described)
    assert [line.split()[1] for line in make("help").splitlines()] == described
