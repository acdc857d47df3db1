"""Rules for the whole repository."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRACKED = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
    "\0"
)
FILES = [ROOT / name for name in TRACKED if name and (ROOT / name).is_file()]

# Assembled from pieces, so that this file does not match.
MACHINE_PATH = re.compile(r"(?<![\w.])/(" + "|".join(["wor" + "k", "roo" + "t", "hom" + "e", "Use" + "rs"]) + r")/\w")
REGISTRY = re.compile(
    "|".join(["pypi" + r"\.org", "pythonhosted" + r"\.org", "registry" + r"\.npmjs", "proxy" + r"\.golang"])
)
MEANINGLESS_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "base", "misc", "impl"}


def lines_that_match(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in FILES
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_file_contains_a_path_of_a_developers_machine() -> None:
    assert lines_that_match(MACHINE_PATH) == []


def test_no_file_contains_the_address_of_a_package_registry() -> None:
    assert lines_that_match(REGISTRY) == []


LOCKS = (
    "requirements.lock",
    "requirements-clients.lock",
    "requirements-judges.lock",
    "openapi/tools/package-lock.json",
    "tests/contract/azurite/package-lock.json",
)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_has_hashes_and_contains_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text()
    assert "sha256:" in text or "sha512-" in text
    assert re.findall(r"https?://\S+", text) == []


def test_no_module_has_a_name_without_meaning() -> None:
    python = [path.relative_to(ROOT) for path in FILES if path.suffix == ".py"]
    assert [str(path) for path in python if MEANINGLESS_NAMES & {*path.parts, path.stem}] == []


def test_a_test_is_named_by_a_sentence() -> None:
    tests = [path for path in FILES if path.is_relative_to(ROOT / "tests") and path.suffix == ".py"]
    short = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path in tests
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if node.name.startswith("test_") and node.name.count("_") < 3
    ]
    assert short == []
