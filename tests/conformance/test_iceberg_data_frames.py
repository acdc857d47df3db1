"""Polars and pandas against a real server: the programs of `make judges`, on local disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moorage.testing.server import ServerProcess
from tests.conformance.lakes import lake_server, pyiceberg_of
from tests.judges.clients.pandas import Pandas
from tests.judges.clients.polars import Polars
from tests.judges.steps import Place, outcomes

WORKS = {"create": "ok", "append": "ok", "read": "ok", "time_travel": "ok"}
# They open tables with PyIceberg, which does the rest.
NOT_OFFERED = {"evolve": "-", "delete": "-", "drop": "-"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with lake_server(tmp_path_factory.mktemp("frames") / "data") as server:
        yield server


# Polars recommends a plugin. PyIceberg reports that pandas replaced the rows of an empty table.
@pytest.mark.filterwarnings("ignore:Iceberg scan planning")
@pytest.mark.filterwarnings("ignore:Delete operation did not match any records:UserWarning")
@pytest.mark.parametrize("judge", [Polars, Pandas])
def test_data_frames_are_written_and_read_at_any_version(
    judge: Callable[[Place], object], server: ServerProcess
) -> None:
    at = Place(url=server.url, namespace=judge.__name__.lower(), folder="")
    assert outcomes(judge(at)) == {**WORKS, **NOT_OFFERED}
    with pyiceberg_of(server).load_table((at.namespace, at.namespace)).update_schema() as update:
        update.rename_column("city", "town")
    table = pyiceberg_of(server).load_table((at.namespace, at.namespace))
    assert table.scan().to_arrow().column_names == ["id", "town"]
    pyiceberg_of(server).drop_table((at.namespace, at.namespace))
