"""Runs the kit: the number of tests that passed, those that failed, and the output."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from scripts.steps import TOOLS

JARS = TOOLS / "rck"
SUITES = ("RESTCompatibilityKitCatalogTests", "RESTCompatibilityKitViewCatalogTests")
STRICT = ("rck.requires-namespace-create", "rck.supports-names-with-dot", "rck.supports-variant")
OWN_FOLDER = Path("/tmp")
"""The kit creates tables below `file:/tmp`, whatever the temporary folder of the machine is."""


class Verdict(NamedTuple):
    passed: int
    failed: list[str]
    output: str


def run_kit(catalog_url: str, warehouse: str, scratch: Path) -> Verdict:
    """Run all tests of the kit for a REST catalog, with every strict option."""
    settings = {
        "rck.local": "false",
        "uri": catalog_url,
        "warehouse": warehouse,
        "java.io.tmpdir": str(scratch),
        "org.slf4j.simpleLogger.defaultLogLevel": "error",
        **dict.fromkeys(STRICT, "true"),
    }
    command = [
        "java",
        "-Xmx768m",
        "-XX:TieredStopAtLevel=1",
        *(f"-D{name}={value}" for name, value in settings.items()),
        *("-cp", f"{JARS}/*", "org.junit.platform.console.ConsoleLauncher", "execute"),
        *(f"--select-class=org.apache.iceberg.rest.{suite}" for suite in SUITES),
        *("--details=tree", "--disable-banner", "--disable-ansi-colors"),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    output = result.stdout + result.stderr
    passed = re.search(r"(\d+) tests successful", output)
    failed = re.findall(r"─ (.+?) (?:✘|\[X\])", output)
    return Verdict(int(passed[1]) if passed else 0, failed, output)
