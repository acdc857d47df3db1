"""What a release of the API may not do to the one before it.

oasdiff compares shapes. Its own opinion lets an optional field vanish from an answer, or a default
change; openapi/severities.txt says that we do not. It calls a new enum value in an answer a break; we
do not, or no new format or kind of object could ever be shown, and every file warns of it. It knows
nothing of our labels, so those are compared here: a stage only ever gets firmer, `since` is history,
and what strangers may ask stays open.
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

_FIRMNESS = {"private_preview": 0, "public_preview": 1, "ga": 2}

Document = dict[str, Any]


def offences(released: Path, current: Path) -> list[str]:
    """Every broken promise between two JSON files, each in one line."""
    before, after = json.loads(released.read_bytes()), json.loads(current.read_bytes())
    return [*label_offences(before, after), *token_offences(before, after), *shape_offences(released, current)]


def shape_offences(released: Path, current: Path) -> list[str]:
    """Each change between two files that could break a client, in oasdiff's words."""
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
    # 1 means that it found something; anything else, that it could not compare at all.
    if compared.returncode not in (0, 1):
        raise ValueError(f"oasdiff cannot compare {released} and {current}: {compared.stderr.strip()}")
    return compared.stdout.strip().splitlines() if compared.returncode == 1 else []


def label_offences(released: Document, current: Document) -> Iterator[str]:
    """Each operation, schema or field that became less firm, or whose history is told wrong."""
    now, then = dict(_labelled(current)), dict(_labelled(released))
    release = current["info"]["version"]
    if release != released["info"]["version"]:
        for place in now.keys() - then.keys():
            if now[place]["x-uc-since"] != release:
                yield f"{place}: it is new in {release} and says that it came with {now[place]['x-uc-since']}"
    for place, before in then.items():
        after = now.get(place)
        if after is None:
            continue
        if _FIRMNESS.get(after["x-uc-stage"], -1) < _FIRMNESS[before["x-uc-stage"]]:
            yield f"{place}: the stage went from {before['x-uc-stage']} back to {after['x-uc-stage']}"
        if after["x-uc-since"] != before["x-uc-since"]:
            yield f"{place}: since went from {before['x-uc-since']} to {after['x-uc-since']}"


def token_offences(released: Document, current: Document) -> Iterator[str]:
    """Each operation that needed no token and now does. oasdiff cannot tell that from one more way to sign in."""
    for path, item in released["paths"].items():
        for verb, operation in item.items():
            now = current["paths"].get(path, {}).get(verb, {})
            if operation["security"] == [] and now.get("security"):
                yield f"{verb.upper()} {path}: it asks for a token now"


def _labelled(node: Any, place: str = "") -> Iterator[tuple[str, Document]]:
    if isinstance(node, dict):
        if "x-uc-stage" in node and "x-uc-since" in node:
            yield place, node
        for name, value in node.items():
            if name not in ("example", "examples"):
                yield from _labelled(value, f"{place}/{name}")
    elif isinstance(node, list):
        for position, value in enumerate(node):
            name = value.get("name", position) if isinstance(value, dict) else position
            yield from _labelled(value, f"{place}/{name}")
