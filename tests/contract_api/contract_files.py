"""The OpenAPI files and the tools that read them. A missing tool fails a test; no test is skipped."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from scripts.openapi import FOLDER, RELEASED

ROOT = FOLDER.parent
CURRENT = sorted(FOLDER.glob("*.yaml"), key=lambda path: path.name)
CURRENT = [path for path in CURRENT if path.name != "spectral.yaml"]
RELEASES = sorted(RELEASED.glob("*.yaml"))

_NODE_TOOLS = FOLDER / "tools" / "node_modules" / ".bin"


def parsed(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER)
    return document


# The loader in C is ten times as fast. Whether it exists depends on how PyYAML was built.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def run_tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    tool = _NODE_TOOLS / name
    assert tool.exists(), f"{tool} is missing: run make setup"
    return subprocess.run([str(tool), *arguments], capture_output=True, text=True, check=False, cwd=ROOT)
