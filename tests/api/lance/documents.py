"""The table with rows that the examples of the Lance data operations use."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import lance
import pyarrow as pa

from moorage.core.callers import LOCAL
from moorage.core.entries import Commit
from moorage.core.ids import SecurableId
from moorage.core.securables import MAIN, Doc, TableDoc
from moorage.formats.lance.manifests import NamingScheme, final_name, manifest_folder
from moorage.testing import builders as make
from moorage.usecases.lance.lookup import LANCE
from moorage.usecases.ports import Ports

DOCUMENTS_ID = SecurableId("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4dd0")
SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string()), ("vector", pa.list_(pa.float32(), 2))])
ROWS = pa.table({"id": [1, 2], "text": ["a red boat", "a blue boat"], "vector": [[1.0, 0.0], [0.0, 1.0]]}, SCHEMA)


async def furnish_documents(ports: Ports, schema: SecurableId) -> None:
    """A table with two rows, an index `id_idx`, a tag `gold` on its first version and a branch `dev`."""
    location = f"{ports.roots.managed}tables/{DOCUMENTS_ID}/"
    folder = Path(location.removeprefix("file://"))
    shutil.copytree(_built(), folder)
    lance.dataset(folder).create_branch("dev")
    table = make.table(
        schema, "documents", id=DOCUMENTS_ID, path=location, doc=Doc(location=location, table=TableDoc(format=LANCE))
    )
    versions = [_version(folder, MAIN, 1), _version(folder, MAIN, 2), _version(folder, "dev", 2)]
    await ports.ledger.append(make.draft(table, versions[0], versions[2], caller=LOCAL.id))
    await ports.ledger.append(make.draft(versions[1], caller=LOCAL.id))


def _version(folder: Path, ref: str, number: int) -> Commit:
    file = manifest_folder(ref) + final_name(number, NamingScheme.V2)
    return make.commit(DOCUMENTS_ID, number, ref=ref, file=file, size=(folder / file).stat().st_size)


@cache
def _built() -> Path:
    """The dataset, built once per test process and copied for each test."""
    folder = Path(tempfile.mkdtemp(prefix="moorage-documents-"))
    atexit.register(shutil.rmtree, folder)
    dataset = lance.write_dataset(ROWS, folder / "documents")
    dataset.create_scalar_index("id", "BTREE", name="id_idx")
    dataset.tags.create("gold", 1)
    return folder / "documents"
