"""Catalogs, namespaces, tables, and dropped objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from moorage.client.answers import Job, LocatedTable, Object, Page, Table, TableHealth
from moorage.client.transport import API, Transport, address

LEVELS = "\x1f"
"""Separates the levels of a nested namespace. No name contains it."""


class Catalogs:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        name: str,
        *,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Object:
        body = {"name": name, "comment": comment, "properties": properties or {}}
        return self._transport.change("POST", f"{API}/catalogs", Object, body=body, key=key)

    def get(self, name: str) -> Object:
        return self._transport.read(_catalog(name), Object)

    def list(self) -> Iterator[Object]:
        """All catalogs, fetched page by page."""
        return self._transport.list(f"{API}/catalogs", Page[Object])

    def describe(self, name: str, **changes: Any) -> Object:
        """Update comment, owner, set_properties and remove_properties. Omitted fields do not change.

        With `revision`, the update fails unless the object is still at that revision.
        """
        return self._transport.change("PATCH", _catalog(name), Object, body=changes)

    def rename(self, name: str, new_name: str) -> Object:
        return self._transport.change("POST", f"{_catalog(name)}:rename", Object, body={"new_name": new_name})

    def drop(self, name: str, *, cascade: bool = False) -> Object:
        return self._transport.change("DELETE", _catalog(name), Object, query={"cascade": cascade})


class Namespaces:
    """A namespace is identified by its catalog and its path, for example `("sales", "eu")`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def create(
        self,
        catalog: str,
        path: Sequence[str],
        *,
        comment: str | None = None,
        properties: Mapping[str, str] | None = None,
        key: str | None = None,
    ) -> Object:
        body = {"path": list(path), "comment": comment, "properties": properties or {}}
        return self._transport.change("POST", f"{_catalog(catalog)}/namespaces", Object, body=body, key=key)

    def get(self, catalog: str, path: Sequence[str]) -> Object:
        return self._transport.read(_namespace(catalog, path), Object)

    def list(self, catalog: str, parent: Sequence[str] = ()) -> Iterator[Object]:
        """The namespaces directly in the catalog, or directly in `parent`."""
        query = {"parent": LEVELS.join(parent)}
        return self._transport.list(f"{_catalog(catalog)}/namespaces", Page[Object], query)

    def describe(self, catalog: str, path: Sequence[str], **changes: Any) -> Object:
        """Update comment, owner, set_properties and remove_properties. Omitted fields do not change.

        With `revision`, the update fails unless the object is still at that revision.
        """
        return self._transport.change("PATCH", _namespace(catalog, path), Object, body=changes)

    def rename(self, catalog: str, path: Sequence[str], new_name: str) -> Object:
        rename = f"{_namespace(catalog, path)}:rename"
        return self._transport.change("POST", rename, Object, body={"new_name": new_name})

    def drop(self, catalog: str, path: Sequence[str], *, cascade: bool = False) -> Object:
        return self._transport.change("DELETE", _namespace(catalog, path), Object, query={"cascade": cascade})

    def tables(self, catalog: str, path: Sequence[str]) -> Iterator[Table]:
        return self._transport.list(f"{_namespace(catalog, path)}/tables", Page[Table])

    def table(self, catalog: str, path: Sequence[str], name: str) -> Table:
        return self._transport.read(f"{_namespace(catalog, path)}/tables{address(name)}", Table)

    def table_by_id(self, id: str) -> LocatedTable:
        """The table with an id, under its current name."""
        return self._transport.read(f"{API}/tables{address(id)}", LocatedTable)

    def create_job(
        self,
        catalog: str,
        path: Sequence[str],
        name: str,
        kind: str,
        args: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
    ) -> Job:
        """Enqueue `compact`, `expire` or `orphans` for a table. If such a job is already open, returns that job."""
        where = f"{_namespace(catalog, path)}/tables{address(name)}/jobs"
        return self._transport.change("POST", where, Job, body={"kind": kind, "args": args or {}}, key=key)

    def health(self, catalog: str, path: Sequence[str], name: str) -> TableHealth:
        """What is wrong with the files of a table, and the work that mends it."""
        return self._transport.read(f"{_namespace(catalog, path)}/tables{address(name)}/health", TableHealth)


class Dropped:
    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, kind: str, catalog: str = "", path: Sequence[str] = ()) -> Iterator[Object]:
        """The objects dropped from one catalog or namespace that can still be undropped, latest first."""
        query = {"kind": kind, "catalog": catalog, "namespace": LEVELS.join(path)}
        return self._transport.list(f"{API}/dropped", Page[Object], query)

    def undrop(self, kind: str, id: str, *, new_name: str | None = None) -> Object:
        body = {"kind": kind, "id": id, "new_name": new_name}
        return self._transport.change("POST", f"{API}/undrop", Object, body=body)


def _catalog(name: str) -> str:
    return f"{API}/catalogs{address(name)}"


def _namespace(catalog: str, path: Sequence[str]) -> str:
    return f"{_catalog(catalog)}/namespaces{address(LEVELS.join(path))}"
