"""The files under openapi/ match the routes, pass the linter, and can generate clients."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from pathlib import Path

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

import moorage.api
from moorage.http import SPEC_RELEASE, Api
from moorage.server.compose import APIS
from scripts.openapi import FOLDER, rendered
from tests.contract_api.contract_files import CURRENT, parsed, run_tool

NAMES = [path.name for path in CURRENT]


@pytest.fixture(params=CURRENT, ids=NAMES)
def file(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_the_files_match_the_routes() -> None:
    texts = rendered()
    assert sorted(texts) == NAMES, "a file of openapi/ is missing or left over: run make openapi"
    for path in CURRENT:
        up_to_date = path.read_text(encoding="utf-8") == texts[path.name]
        assert up_to_date, f"openapi/{path.name} is out of date: run make openapi"


def test_every_route_is_in_exactly_one_file_and_every_path_has_a_route() -> None:
    written = [
        (verb.upper(), path) for file in CURRENT for path, item in parsed(file)["paths"].items() for verb in item
    ]
    declared = [(route.verb, route.pattern.path.replace(":rest}", "}")) for api in APIS for route in api.routes]
    assert sorted(written) == sorted(declared)


def test_every_api_is_served() -> None:
    found = set()
    for module in pkgutil.walk_packages(moorage.api.__path__, "moorage.api."):
        found |= {value for value in vars(importlib.import_module(module.name)).values() if isinstance(value, Api)}
    assert {api.name for api in found} <= {api.name for api in APIS}


def test_each_file_is_valid_openapi(file: Path) -> None:
    OpenAPIV31SpecValidator(parsed(file)).validate()


def test_each_file_states_the_release(file: Path) -> None:
    assert parsed(file)["info"]["version"] == SPEC_RELEASE


def test_the_linter_accepts_every_file() -> None:
    files = [str(path) for path in CURRENT]
    linted = run_tool("spectral", "lint", "--fail-severity", "hint", "--ruleset", "openapi/spectral.yaml", *files)
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_a_client_generated_from_each_file_compiles(tmp_path: Path) -> None:
    for path in CURRENT:
        generated = run_tool("openapi-typescript", str(path), "--output", str(tmp_path / f"{path.stem}.ts"))
        assert generated.returncode == 0, generated.stdout + generated.stderr
    uses = "\n".join(
        f'import type {{ operations as {path.stem} }} from "./{path.stem}";\n'
        f"export type {path.stem}_operations = keyof {path.stem};"
        for path in CURRENT
    )
    (tmp_path / "uses.ts").write_text(uses)
    compiled = run_tool("tsc", "--strict", "--noEmit", "--skipLibCheck", str(tmp_path / "uses.ts"))
    assert compiled.returncode == 0, compiled.stdout + compiled.stderr


def test_each_of_our_linter_rules_reports_its_violation(tmp_path: Path) -> None:
    """One file violates each of our rules once, and each rule must report it."""
    document = parsed(FOLDER / "console.yaml")
    operations = iter(operation for item in document["paths"].values() for operation in item.values())
    del next(operations)["x-uc-stage"]
    next(operations)["x-uc-stage"] = "beta"
    del next(operations)["x-uc-since"]
    next(operations)["x-uc-since"] = "yesterday"
    next(operations).update({"x-uc-stage": "public_preview", "tags": ["catalogs"]})
    next(operations).update({"x-uc-stage": "ga", "tags": ["catalogs", "preview"]})
    next(operations)["deprecated"] = True
    with_body = next(operation for operation in operations if "requestBody" in operation)
    del with_body["requestBody"]["content"]["application/json"]["example"]
    del with_body["responses"][min(with_body["responses"])]["content"]["application/json"]["example"]
    for label in ("x-uc-stage", "x-uc-since"):
        del with_body["parameters"][0][label]
    schema = document["components"]["schemas"]["ErrorDetail"]
    for label in ("x-uc-stage", "x-uc-since", "description"):
        del schema[label]
    for field, broken in (("code", {}), ("message", {"x-uc-stage": "beta", "x-uc-since": "yesterday"})):
        schema["properties"][field] = {"type": "string", **broken}
    document["info"]["version"] = "1"
    (tmp_path / "bad.json").write_text(json.dumps(document))
    linted = run_tool(
        *("spectral", "lint", "--format", "json", "--ruleset", "openapi/spectral.yaml", str(tmp_path / "bad.json"))
    )
    ours = set(re.findall(r"^  ([a-z-]+):\n    description", (FOLDER / "spectral.yaml").read_text(), re.MULTILINE))
    reported = {each["code"] for each in json.loads(linted.stdout[linted.stdout.index("[") :])}
    assert ours - reported == set()
