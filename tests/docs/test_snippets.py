"""The commands and programs in README and docs run against a real server."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.ducks import install

ROOT = Path(__file__).parents[2]
DEFAULT_URL = "http://127.0.0.1:8080"
BLOCK = re.compile(r"^```(?P<language>sh|python)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])


def snippets(page: Path) -> Iterator[tuple[str, str]]:
    """The blocks marked as `sh` or `python`, in order. Blocks without a language are not run."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        yield block["language"], block["text"]


def run(language: str, text: str, url: str, home: Path) -> subprocess.CompletedProcess[str]:
    text = text.replace(DEFAULT_URL, url).replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-c", text]
    environment = {
        "MOORAGE_URL": url,
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "no_proxy": "127.0.0.1",
    }
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


@pytest.mark.parametrize("page", [page for page in PAGES if any(snippets(page))], ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    install(home)
    with ServerProcess(tmp_path / "data") as server:
        for language, text in snippets(page):
            done = run(language, text, server.url, home)
            assert done.returncode == 0, f"{text}\nexited with {done.returncode}:\n{done.stdout}{done.stderr}"
            assert done.stdout, f"{text}\nprinted nothing"


def test_the_readme_shows_a_shell_and_a_python_snippet() -> None:
    assert {language for language, _ in snippets(ROOT / "README.md")} == {"sh", "python"}
