"""A server that shares tables, as a provider sets it up, and the profile of a recipient."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from moorage.testing.server import ServerProcess
from tests.conformance.lakes import send_request

UNITY = "/api/2.1/unity-catalog"


class ShareServer:
    """A share `fish` with a schema `sea`, granted to a recipient."""

    def __init__(self, server: ServerProcess, folder: Path, profile: Path) -> None:
        self.server = server
        self.folder = folder
        self.profile = profile

    def build(self) -> ShareServer:
        self.unity("POST", "/catalogs", json={"name": "lake"})
        self.unity("POST", "/schemas", json={"name": "sea", "catalog_name": "lake"})
        self.unity("POST", "/shares", json={"name": "fish"})
        recipient = self.unity("POST", "/recipients", json={"name": "ann"})
        changes = [{"principal": "ann", "add": ["SELECT"]}]
        self.unity("PATCH", "/shares/fish/permissions", json={"changes": changes})
        profile = send_request(self.server, "GET", recipient["activation_url"].removeprefix(self.server.url))
        self.profile.write_text(json.dumps(profile))
        return self

    def unity(self, verb: str, path: str, **given: Any) -> Any:
        return send_request(self.server, verb, UNITY + path, **given)

    def path_of(self, name: str) -> Path:
        return self.folder / name

    def offer(self, name: str, *, register: bool = True, **given: Any) -> str:
        """Share a table, registered from its folder unless the catalog has it, and return its address for clients."""
        if register:
            location = {"storage_location": f"file://{self.path_of(name)}"}
            table = {"name": name, "catalog_name": "lake", "schema_name": "sea", "table_type": "EXTERNAL"}
            self.unity("POST", "/tables", json={**table, "data_source_format": "DELTA", **location})
        data_object = {
            "name": f"lake.sea.{name}",
            "data_object_type": "TABLE",
            "history_data_sharing_status": "ENABLED",
            **given,
        }
        self.unity("PATCH", "/shares/fish", json={"updates": [{"action": "ADD", "data_object": data_object}]})
        return f"{self.profile}#fish.sea.{name}"


@contextmanager
def share_server(folder: Path, *flags: str) -> Iterator[ShareServer]:
    external = folder / "external"
    external.mkdir()
    with ServerProcess(folder / "data", flags=("--external-folder", str(external), *flags)) as server:
        yield ShareServer(server, external, folder / "config.share").build()
        assert not server.errors()
