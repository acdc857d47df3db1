"""Running the kit: which of its tests passed, and what the others said."""

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
"""The kit creates tables below `file:/tmp`, whatever the machine calls its temporary folder."""


class Verdict(NamedTuple):
    passed: int
    failed: list[str]
    words: str


def run_kit(catalog_url: str, warehouse: str, scratch: Path) -> Verdict:
    """All tests of the kit that a REST catalog can be asked, with every strict switch."""
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
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    words = said.stdout + said.stderr
    passed = re.search(r"(\d+) tests successful", words)
    failed = re.findall(r"─ (.+?) (?:✘|\[X\])", words)
    return Verdict(int(passed[1]) if passed else 0, failed, words)
