"""Azure's storage API on a real server: what the server's own key opens, and what signatures open.

Azurite has no folders, so it knows no signatures for them (`sr=d`). It checks the same signed text for single files.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from moorage.core.errors import Unavailable
from moorage.storage.azure import FileSigner, open_storage
from moorage.testing.storage_kit import MUCH
from tests.contract.azure_server import NAME, AzureServer


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with AzureServer(tmp_path_factory.mktemp("azurite")) as server:
        yield server


async def test_the_server_writes_lists_and_reads_with_its_service_principal(azure: AzureServer) -> None:
    root = azure.new_container("files") + "tables/t1/"
    storage = open_storage(azure.account(root))
    assert await storage.put_new(root, "a.parquet", b"rows")
    assert not await storage.put_new(root, "a.parquet", b"others"), "a file is never replaced"
    assert [file.path for file in await storage.list(root, "")] == ["a.parquet"]
    assert await storage.read(root, "a.parquet", limit=MUCH) == b"rows"


async def test_a_url_opens_one_file_until_it_expires_or_is_edited(azure: AzureServer) -> None:
    container = azure.new_container("urls")
    root, signer = f"{container}t1/", FileSigner(azure.account(container))
    names = ["a.parquet", "b.parquet", "city=São Paulo/part=1%2F2 3.parquet"]
    for folder in (root, f"{container}t10/"):
        for name in names:
            await open_storage(azure.account(container)).put_new(folder, name, name.encode())
    urls = await signer.presign(root, names, seconds=60)
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        assert [(await http.get(url)).text for url in urls] == names
        url = urls[0]
        edits = [
            ("a.parquet", "b.parquet"),
            ("/t1/", "/t10/"),
            ("se=20", "se=21"),
            ("sp=r", "sp=rw"),
            ("sig=", "sig=A"),
        ]
        for old, new in edits:
            assert old in url
            assert (await http.get(url.replace(old, new))).status_code == 403, new
        assert (await http.put(url, content=b"", headers={"x-ms-blob-type": "BlockBlob"})).status_code == 403
        (expired,) = await signer.presign(root, names[:1], seconds=-1)
        assert (await http.get(expired)).status_code == 403


async def test_an_unknown_container_is_an_error(azure: AzureServer) -> None:
    root = f"abfss://absent@{NAME}.dfs.core.windows.net/t1/"
    with pytest.raises(Unavailable):
        await open_storage(azure.account(root)).put_new(root, "a", b"")
