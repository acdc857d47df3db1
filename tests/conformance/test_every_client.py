"""Each client of docs/clients creates, appends, reads, evolves and drops on local disk, as its row of the table says.

`make judges` runs the same programs on S3 too, with a key of the client and with what the server vends.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.lakes import lake_server
from tests.judges.programs import CLIENTS, run
from tests.judges.steps import CAPABILITIES, Place
from tests.judges.verdicts import WORDS, documented


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("external")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, external: Path) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("clients") / "lake", ("--external-folder", str(external))) as running:
        yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_can_do_what_its_page_says(server: ServerProcess, external: Path, client: str) -> None:
    namespace = client.lower().replace("-", "_")
    outcomes = run(client, Place(url=server.url, namespace=namespace, folder=str(external / namespace)))
    page = dict(zip(CAPABILITIES, documented()[client], strict=False))
    found = {name: WORDS.get(outcome, "no") for name, outcome in outcomes.items()}
    assert found == page, outcomes
