"""The steps of a transaction. A path begins with its catalog."""

from __future__ import annotations

import msgspec


class CreateNamespace(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="create_namespace"):
    path: tuple[str, ...]
    comment: str | None = None
    properties: dict[str, str] = {}


class SetProperties(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="set_properties"):
    kind: str
    path: tuple[str, ...]
    properties: dict[str, str] = {}
    remove: tuple[str, ...] = ()


class Rename(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="rename"):
    kind: str
    path: tuple[str, ...]
    to: tuple[str, ...]


class Drop(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="drop"):
    kind: str
    path: tuple[str, ...]
    cascade: bool = False


Operation = CreateNamespace | SetProperties | Rename | Drop
