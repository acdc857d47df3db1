"""Pipelines: registered projects, and their runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moorage.client.answers import Flow, Job, Object, Page, Pipeline
from moorage.client.catalog import LEVELS
from moorage.client.transport import API, Transport, address


class Pipelines:
    """A pipeline is identified by its catalog, its namespace and its name: `("lake", ["sea"], "daily")`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def register(
        self,
        catalog: str,
        path: Sequence[str],
        name: str,
        files: Mapping[str, str],
        *,
        tables: Sequence[str] = (),
        views: Sequence[str] = (),
        sinks: Sequence[str] = (),
        flows: Sequence[Flow] = (),
        schedule: str | None = None,
        on_change: bool = False,
        comment: str | None = None,
    ) -> Pipeline:
        """Create a pipeline, or replace its project."""
        body = {
            "name": name,
            "files": files,
            "tables": list(tables),
            "views": list(views),
            "sinks": list(sinks),
            "flows": list(flows),
            "schedule": schedule,
            "on_change": on_change,
            "comment": comment,
        }
        return self._transport.change("POST", _pipelines(catalog, path), Pipeline, body=body)

    def get(self, catalog: str, path: Sequence[str], name: str) -> Pipeline:
        return self._transport.read(_pipeline(catalog, path, name), Pipeline)

    def list(self, catalog: str, path: Sequence[str]) -> Iterator[Pipeline]:
        return self._transport.list(_pipelines(catalog, path), Page[Pipeline])

    def run(self, catalog: str, path: Sequence[str], name: str, **what: Any) -> Job:
        """Enqueue a run; `refresh`, `full_refresh` and `full_refresh_all` say of what. An open run is returned."""
        return self._transport.change("POST", f"{_pipeline(catalog, path, name)}:run", Job, body=what)

    def drop(self, catalog: str, path: Sequence[str], name: str) -> Object:
        """Drop a pipeline. Its tables stay."""
        return self._transport.change("DELETE", _pipeline(catalog, path, name), Object)

    def iceberg_metadata(self, table: str) -> dict[str, Any] | None:
        """The metadata of an Iceberg table by its full name, or None if there is none."""
        from moorage.client.errors import ClientError

        catalog, *levels, name = table.split(".")
        path = f"/iceberg/v1{address(catalog)}/namespaces{address(LEVELS.join(levels))}/tables{address(name)}"
        try:
            found: dict[str, Any] = self._transport.read(path, dict)["metadata"]
        except ClientError as error:
            if error.status == 404:
                return None
            raise
        return found


def _pipelines(catalog: str, path: Sequence[str]) -> str:
    return f"{API}/catalogs{address(catalog)}/namespaces{address(LEVELS.join(path))}/pipelines"


def _pipeline(catalog: str, path: Sequence[str], name: str) -> str:
    return f"{_pipelines(catalog, path)}{address(name)}"
