"""Regenerates the lock files of Python and of Node's tools, without the address of any registry."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from scripts.setup import AZURITE, CLIENTS_LOCK, JUDGES_LOCK, LOCK, OPENAPI_TOOLS, UV_PROGRAM, VENV_PYTHON, uv, venv
from scripts.steps import ROOT, StepFailed, run, say

NODE_LOCKS = [folder / "package-lock.json" for folder in (OPENAPI_TOOLS, AZURITE)]
ADDRESS = re.compile(r"https?://\S+")


def lock_python() -> None:
    every_platform = ("--universal", "--python-version", "3.11", "--python", VENV_PYTHON)
    plain = ("--quiet", "--no-header", "--no-annotate", "--no-emit-find-links", "--no-emit-index-url")
    hashed = (UV_PROGRAM, "pip", "compile", *every_platform, *plain, "--generate-hashes")
    run(*hashed, "pyproject.toml", "--extra", "otel", "--group", "dev", "-o", LOCK)
    clients = ("--extra", "otel", "--extra", "spark", "--group", "dev", "--group", "clients")
    overrides = ("--overrides", ROOT / "scripts" / "clients-overrides.txt")
    run(*hashed, "pyproject.toml", *clients, *overrides, "--constraint", LOCK, "-o", CLIENTS_LOCK)
    # Without the package itself: its dependencies and those of the judges exclude each other.
    run(*hashed, "--group", "judges", "-o", JUDGES_LOCK)


def lock_node(file: Path) -> None:
    # The project's .npmrc omits the download addresses. Pages for funding and licences remain, and are removed here,
    # so that a plain search can check that a lock contains no address.
    run("npm", "install", "--package-lock-only", "--ignore-scripts", "--no-audit", cwd=file.parent)
    lock = json.loads(file.read_text())
    for package in lock["packages"].values():
        for field in [name for name, value in package.items() if ADDRESS.search(json.dumps(value))]:
            del package[field]
    file.write_text(json.dumps(lock, indent=2, ensure_ascii=False) + "\n")


def main() -> int:
    try:
        uv()
        lock_python()
        for file in NODE_LOCKS:
            lock_node(file)
        venv()
    except StepFailed as failure:
        say(str(failure))
        return 1
    locks = {str(lock.relative_to(ROOT)): lock.read_text() for lock in (LOCK, CLIENTS_LOCK, JUDGES_LOCK, *NODE_LOCKS)}
    named = [(name, address) for name, text in locks.items() for address in ADDRESS.findall(text)]
    for name, address in named:
        say(f"{name} contains the address {address}; lock files must not contain any")
    return 1 if named else 0


if __name__ == "__main__":
    sys.exit(main())
