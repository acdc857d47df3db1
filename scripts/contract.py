"""Checks that a release of the API does not break the one before it.

oasdiff compares shapes. By default it allows an optional response field to disappear, and a default value to change;
openapi/severities.txt forbids both. By default a new enum value in a response is a breaking change. Here it is allowed,
because otherwise the API could never show a new format or kind of object, and every file warns clients of it. oasdiff
does not know our labels, so this module compares them: a stage may only become more stable, `since` may not change, and
an operation without authentication stays open.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OASDIFF = ROOT / ".tools" / "oasdiff"
SEVERITIES = ROOT / "openapi" / "severities.txt"

_STABILITY = {"private_preview": 0, "public_preview": 1, "ga": 2}

Document = dict[str, Any]


def offences(released: Path, current: Path) -> list[str]:
    """Returns every breaking change between two JSON files, one line each."""
    before, after = json.loads(released.read_bytes()), json.loads(current.read_bytes())
    return [*label_offences(before, after), *token_offences(before, after), *shape_offences(released, current)]


def shape_offences(released: Path, current: Path) -> list[str]:
    """Returns oasdiff's message for each change between two files that could break a client."""
    if not OASDIFF.exists():
        raise FileNotFoundError(f"{OASDIFF} is missing: run make setup")
    compared = subprocess.run(
        [
            str(OASDIFF),
            "breaking",
            *("--fail-on", "WARN", "--format", "singleline", "--color", "never"),
            *("--severity-levels", str(SEVERITIES), str(released), str(current)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    # Exit code 1 means that it found changes. Any other failure means that it could not compare the files.
    if compared.returncode not in (0, 1):
        raise ValueError(f"oasdiff cannot compare {released} and {current}: {compared.stderr.strip()}")
    return compared.stdout.strip().splitlines() if compared.returncode == 1 else []


def label_offences(released: Document, current: Document) -> Iterator[str]:
    """Yields each operation, schema or field whose stage became less stable, or whose `since` is wrong."""
    now, then = dict(_labelled(current)), dict(_labelled(released))
    release = current["info"]["version"]
    if release != released["info"]["version"]:
        for pointer in now.keys() - then.keys():
            if now[pointer]["x-uc-since"] != release:
                yield f"{pointer}: is new in {release}, but its x-uc-since is {now[pointer]['x-uc-since']}"
    for pointer, before in then.items():
        after = now.get(pointer)
        if after is None:
            continue
        if _STABILITY.get(after["x-uc-stage"], -1) < _STABILITY[before["x-uc-stage"]]:
            yield f"{pointer}: x-uc-stage went back from {before['x-uc-stage']} to {after['x-uc-stage']}"
        if after["x-uc-since"] != before["x-uc-since"]:
            yield f"{pointer}: x-uc-since changed from {before['x-uc-since']} to {after['x-uc-since']}"


def token_offences(released: Document, current: Document) -> Iterator[str]:
    """Yields each operation that needed no token and now needs one.

    oasdiff cannot distinguish that from an additional way to authenticate.
    """
    for path, item in released["paths"].items():
        for verb, operation in item.items():
            now = current["paths"].get(path, {}).get(verb, {})
            if operation["security"] == [] and now.get("security"):
                yield f"{verb.upper()} {path}: requires a token now"


def _labelled(node: Any, pointer: str = "") -> Iterator[tuple[str, Document]]:
    if isinstance(node, dict):
        if "x-uc-stage" in node and "x-uc-since" in node:
            yield pointer, node
        for name, value in node.items():
            if name not in ("example", "examples"):
                yield from _labelled(value, f"{pointer}/{name}")
    elif isinstance(node, list):
        for position, value in enumerate(node):
            name = value.get("name", position) if isinstance(value, dict) else position
            yield from _labelled(value, f"{pointer}/{name}")
