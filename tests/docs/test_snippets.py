"""The commands and programs in README and docs run against a real server."""

from __future__ import annotations

from pathlib import Path

import pytest

from moorage.testing.minio import MinioServer
from moorage.testing.server import ServerProcess
from tests.conformance.ducks import install
from tests.docs.snippets import CLIENT_PAGES, JUDGED, ROOT, Site, failure_of, run, snippets

GUARDED = ROOT / "docs" / "access.md"
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").glob("*.md")} - {GUARDED})
INSTALLED = [page for page in CLIENT_PAGES if page.name not in JUDGED and any(snippets(page))]


@pytest.mark.timeout(900)  # the page about pipelines starts Spark seven times
@pytest.mark.parametrize("page", [page for page in PAGES if any(snippets(page))], ids=lambda page: page.name)
def test_the_snippets_of_a_page_run_in_order(page: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    install(home)
    with ServerProcess(tmp_path / "data") as server:
        for snippet in snippets(page):
            done = run(snippet.language, snippet.text, server.url, home)
            assert done.returncode == 0, f"{snippet.text}\nexited with {done.returncode}:\n{done.stdout}{done.stderr}"
            assert done.stdout, f"{snippet.text}\nprinted nothing"


def test_the_snippets_on_access_run_on_a_server_with_authentication(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", flags=["--auth", "on"]) as server:
        token = next(word for word in server.output().split() if word.startswith("moor_"))
        assert any(snippets(GUARDED))
        for snippet in snippets(GUARDED):
            done = run(snippet.language, snippet.text, server.url, tmp_path, token=token)
            assert done.returncode == 0, f"{snippet.text}\nexited with {done.returncode}:\n{done.stdout}{done.stderr}"
            assert done.stdout, f"{snippet.text}\nprinted nothing"


@pytest.mark.xdist_group("s3")
@pytest.mark.parametrize("page", INSTALLED, ids=lambda page: f"clients/{page.name}")
def test_the_snippets_for_a_client_run_on_local_disk_and_on_s3(page: Path, minio: MinioServer) -> None:
    with Site.open(minio) as site:
        assert failure_of(page, site) is None


def test_the_readme_shows_a_shell_and_a_python_snippet() -> None:
    assert {snippet.language for snippet in snippets(ROOT / "README.md")} == {"sh", "python"}


def test_every_client_page_has_the_same_sections_and_an_example() -> None:
    assert len(CLIENT_PAGES) > 10
    for page in CLIENT_PAGES:
        if page.name == "index.md":
            continue
        assert "Local disk" in {snippet.section for snippet in snippets(page)}, page.name
        headings = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
        assert headings == ["## Local disk", "## S3", "## Authentication", "## Limits"], page.name
        assert f"({page.name})" in (page.parent / "index.md").read_text(encoding="utf-8"), page.name
