"""What clients are told of the store in which a table's files lie. Keys to it are never among that."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from moorage.api.iceberg.bodies import Properties
from moorage.core.locations import scheme_of
from moorage.http import Call
from moorage.usecases.ports import Ports


async def config_of(call: Call[Any, Any], ports: Ports, table: str, location: str) -> Properties:
    """The settings for the files of a table; nothing, where they lie on local disk.

    A client that has no key of its own says so by a header. Whatever help it asks for there, it is told to let us
    sign its requests.
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
        # Java's clients read the first up to 1.10, the second in 1.11, and know the address by themselves from then on.
        "s3.signer.endpoint": endpoint,
        "signer.endpoint": endpoint,
        # PyIceberg reads the first too, and signs only with these.
        "s3.signer": "S3V4RestSigner",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        # No secret, and nobody's token: PyIceberg shares one file system among tables with equal settings, and would
        # have the requests for one signed at the address of another.
        "s3.session-token": endpoint,
    }
