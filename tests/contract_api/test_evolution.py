"""The current files break nothing that was released, and the check detects every breaking change."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scripts.contract import label_offences, offences
from scripts.openapi import FOLDER
from tests.contract_api.contract_files import RELEASES, parsed
from tests.contract_api.mutations import Document, Mutation, slices

NAMES = [path.name for path in RELEASES]

# Mutations of each kind that are tested. `make soak` tests all of them.
MUTATIONS_PER_KIND = 1_000_000 if os.environ.get("MOORAGE_SOAK") else 10


@pytest.fixture(params=RELEASES, ids=NAMES)
def released(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def as_json(document: Document, path: Path) -> Path:
    path.write_text(json.dumps(document))
    return path


def test_there_is_a_release_to_compare_with() -> None:
    assert NAMES, "openapi/released/ is empty: run python -m scripts.openapi release"


def test_the_current_file_breaks_nothing_that_was_released(released: Path, tmp_path: Path) -> None:
    current = FOLDER / released.name
    assert current.exists(), f"openapi/{released.name} was released and no longer exists"
    before, after = (as_json(parsed(path), tmp_path / f"{n}.json") for n, path in enumerate((released, current)))
    found = offences(before, after)
    assert not found, f"openapi/{released.name} breaks what was released:\n" + "\n".join(found)


def test_a_new_route_must_state_the_release_that_added_it(released: Path) -> None:
    before = parsed(released)
    after = {**before, "info": {**before["info"], "version": "2.1.0-moorage.2"}}
    path, item = next(iter(before["paths"].items()))
    after["paths"] = {**before["paths"], f"{path}/new": item}
    assert list(label_offences(before, before)) == []
    assert any(f"{path}/new" in offence for offence in label_offences(before, after))


@pytest.mark.timeout(600)  # hundreds of comparisons, each in its own process
def test_every_breaking_change_is_detected(released: Path, tmp_path: Path) -> None:
    chosen: dict[str, list[tuple[Path, Document, Mutation]]] = defaultdict(list)
    for number, (document, found) in enumerate(slices(parsed(released))):
        base = as_json(document, tmp_path / f"slice-{number}.json")
        assert offences(base, base) == []
        for mutation in found:
            chosen[mutation.kind].append((base, document, mutation))

    def is_detected(case: tuple[int, tuple[Path, Document, Mutation]]) -> bool:
        number, (base, document, mutation) = case
        mutant = as_json(mutation.of(document), tmp_path / f"mutant-{number}.json")
        return bool(offences(base, mutant))

    cases = [case for kind in chosen.values() for case in kind[:: 1 + len(kind) // MUTATIONS_PER_KIND]]
    with ThreadPoolExecutor(2) as threads:
        detected = list(threads.map(is_detected, enumerate(cases)))
    missed = [str(mutation) for (_, _, mutation), seen in zip(cases, detected, strict=True) if not seen]
    assert cases
    assert not missed, "these breaking changes were not detected:\n" + "\n".join(missed)


def test_additions_break_nothing(released: Path, tmp_path: Path) -> None:
    before = parsed(released)
    after = parsed(released)
    for schema in after["components"]["schemas"].values():
        if "properties" in schema:
            schema["properties"]["brand_new"] = {"type": "string"}
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], "brand_new"]
    for path, item in list(after["paths"].items()):
        for verb, operation in item.items():
            extra = {"name": "brand_new", "in": "query", "required": False, "schema": {"type": "string"}}
            operation["parameters"] = [*operation.get("parameters", []), extra]
            after["paths"][f"{path}/brand-new"] = {verb: operation | {"operationId": f"{operation['operationId']}New"}}
    found = offences(as_json(before, tmp_path / "before.json"), as_json(after, tmp_path / "after.json"))
    assert found == []
