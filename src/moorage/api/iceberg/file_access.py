"""The client configuration for the store that has a table's files. It never contains keys."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from moorage.api.iceberg.bodies import Properties
from moorage.core.locations import scheme_of
from moorage.http import Call
from moorage.usecases.ports import Ports


async def storage_config(call: Call[Any, Any], ports: Ports, table: str, location: str) -> Properties:
    """The settings for the files of a table; empty if they are on local disk.

    A client without its own key sends a header. Whichever kind of access it asks for there, it is configured to let
    the server sign its requests.
    """
    if ports.delegation is None or scheme_of(location) != "s3":
        return {}
    settings = ports.delegation.settings
    store = {
        "s3.endpoint": settings.endpoint,
        "s3.region": settings.region,
        "client.region": settings.region,
        "s3.path-style-access": "true" if settings.path_style else "false",
    }
    if call.header("x-iceberg-access-delegation") is None or not await ports.signs():
        return store
    names = {**call.params, "table": table}
    prefix, namespace, name = (quote(names[part], safe="") for part in ("prefix", "namespace", "table"))
    endpoint = f"v1/{prefix}/namespaces/{namespace}/tables/{name}/sign"
    return {
        **store,
        "s3.remote-signing-enabled": "true",
        # Java clients up to 1.10 read the first, 1.11 reads the second; later ones derive the path.
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
        # PyIceberg also reads the first, and signs only with these.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        # Not a secret, and not a real token: PyIceberg shares one file system among tables with equal settings, and
        # would send the requests for one table to the signing endpoint of another.
        "s3.session-token": endpoint,
    }
