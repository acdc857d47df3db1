"""Decide what the requested updates do to the objects of a share. Pure, apart from new ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from moorage import fresh
from moorage.core.entries import Change, Create, Drop, Rename, Update
from moorage.core.errors import InvalidInput, NameTaken, SecurableNotFound
from moorage.core.names import name_key, require_path
from moorage.core.recipients import MAX_COMMENT, require_text
from moorage.core.securables import Kind, Securable
from moorage.core.shares import (
    WHOLE_SCHEMA,
    ObjectDetails,
    ObjectType,
    Partition,
    details_of,
    parse_shared_as,
    require_partitions,
    schema_of,
    to_doc,
)
from moorage.usecases.catalog.addresses import Address, Chain

Action: TypeAlias = Literal["ADD", "REMOVE", "UPDATE"]


class ObjectUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a share's objects. For UPDATE, None keeps the current value."""

    action: Action
    name: str
    """The full name of the table or schema in the catalog."""
    type: ObjectType
    shared_as: str | None = None
    """The name that recipients see: for ADD and UPDATE the new one, for REMOVE that of the object to remove."""
    comment: str | None = None
    history: bool | None = None
    partitions: tuple[Partition, ...] | None = None
    start_version: int | None = None

    @property
    def address(self) -> Address:
        levels, form = (3, "catalog.schema.table") if self.type == "TABLE" else (2, "catalog.schema")
        parts = tuple(self.name.split("."))
        if len(parts) != levels or not all(parts):
            raise InvalidInput(f"name {self.name!r} of a {self.type} does not have the form {form}", field="name")
        return Address(Kind.TABLE if self.type == "TABLE" else Kind.NAMESPACE, require_path(parts, "name"))

    @property
    def alias(self) -> str:
        """The name of the shared object in the ledger: the requested one, or that of the table without its catalog."""
        if self.shared_as is not None:
            return parse_shared_as(self.shared_as, self.type)
        return parse_shared_as(".".join(self.address.path[1:]), self.type, "name")


class SharePlan:
    """The changes so far, and the objects that they leave under each name."""

    def __init__(self, share: Securable, existing: Iterable[Securable]) -> None:
        self._share = share
        self._objects = {name_key(each.name): each for each in existing}
        self.changes: list[Change] = []

    def apply(self, update: ObjectUpdate, target: Chain, by: str) -> None:
        """Plan one update. `target` is the table or schema with its ancestors; empty if it no longer exists."""
        match update.action:
            case "ADD":
                self._add(update, target, by)
            case "REMOVE":
                self._remove(update, target)
            case "UPDATE":
                self._update(update, target)

    def find(self, update: ObjectUpdate, target: Chain) -> Securable | None:
        """The object that an update means: for REMOVE by the name that recipients see, if the update states it."""
        found = self._objects.get(name_key(update.alias))
        is_named = update.action == "REMOVE" and update.shared_as is not None
        if found is not None and (is_named or _is_meant(found, update, target)):
            return found
        return next((each for each in self._objects.values() if _is_meant(each, update, target)), None)

    def widened_by(self, update: ObjectUpdate, target: Chain) -> ObjectDetails | None:
        """The object of which an UPDATE shares other rows or versions than before; None if it does not."""
        found = self.find(update, target) if update.action == "UPDATE" else None
        if found is None:
            return None
        before = details_of(found)
        after = _after(before, update, target)
        is_same = (after.partitions, after.start_version) == (before.partitions, before.start_version)
        return None if is_same and after.history <= before.history else before

    def _add(self, update: ObjectUpdate, target: Chain, by: str) -> None:
        alias = update.alias
        self._require_free(alias)
        details = ObjectDetails(
            target=target[-1].id,
            type=update.type,
            name=".".join(part.name for part in target),
            history=bool(update.history),
            partitions=_partitions(update, target),
            start_version=_start_version(update),
        )
        doc = to_doc(details, require_text(update.comment, "comment", MAX_COMMENT))
        create = Create(
            id=fresh.securable_id(),
            kind=Kind.SHARED_OBJECT,
            parent=self._share.id,
            name=alias,
            owner=by,
            doc=doc,
        )
        self.changes.append(create)
        self._objects[name_key(alias)] = replace(self._share, id=create.id, name=alias, doc=doc)

    def _remove(self, update: ObjectUpdate, target: Chain) -> None:
        found = self._require(update, target)
        del self._objects[name_key(found.name)]
        self.changes.append(Drop(id=found.id, hold_ms=0))

    def _update(self, update: ObjectUpdate, target: Chain) -> None:
        found = self._require(update, target)
        details = _after(details_of(found), update, target)
        comment = found.doc.comment if update.comment is None else update.comment
        after = replace(found, doc=to_doc(details, require_text(comment, "comment", MAX_COMMENT)))
        self.changes.append(Update(id=found.id, doc=after.doc))
        del self._objects[name_key(found.name)]
        if update.shared_as is not None and update.alias != found.name:
            self._require_free(update.alias)
            self.changes.append(Rename(id=found.id, parent=self._share.id, name=update.alias))
            after = replace(after, name=update.alias)
        self._objects[name_key(after.name)] = after

    def _require(self, update: ObjectUpdate, target: Chain) -> Securable:
        found = self.find(update, target)
        if found is None:
            raise SecurableNotFound(f"{update.type.lower()} '{update.name}' is not in share '{self._share.name}'")
        return found

    def _require_free(self, alias: str) -> None:
        """Refuse a name that is taken, or a table and a whole schema under the same schema name."""
        schema = name_key(schema_of(alias))
        whole = f"{schema}.{WHOLE_SCHEMA}"
        found = self._objects.get(name_key(alias)) or self._objects.get(whole)
        if found is None and name_key(alias) == whole:
            found = next((each for key, each in self._objects.items() if key.startswith(f"{schema}.")), None)
        if found is not None:
            raise NameTaken(
                f"cannot share '{_shown(alias)}': share '{self._share.name}' already contains '{_shown(found.name)}'. "
                "Remove that first, or choose another name with shared_as. A schema of a share is either one whole "
                "schema or single tables",
                field="shared_as",
                kind=str(Kind.SHARED_OBJECT),
            )


def _is_meant(found: Securable, update: ObjectUpdate, target: Chain) -> bool:
    """Whether this is the object that an update names. An object that was dropped is known by its former name."""
    details = details_of(found)
    if target and details.target == target[-1].id:
        return True
    return not target and details.type == update.type and name_key(details.name) == name_key(update.name)


def _after(before: ObjectDetails, update: ObjectUpdate, target: Chain) -> ObjectDetails:
    return replace(
        before,
        history=before.history if update.history is None else update.history,
        partitions=before.partitions if update.partitions is None else _partitions(update, target),
        start_version=before.start_version if update.start_version is None else _start_version(update),
    )


def _shown(alias: str) -> str:
    return alias.removesuffix(f".{WHOLE_SCHEMA}")


def _partitions(update: ObjectUpdate, target: Chain) -> tuple[Partition, ...]:
    if update.partitions and update.type == "SCHEMA":
        raise InvalidInput("partitions are only for tables, not for whole schemas", field="partitions")
    return require_partitions(update.partitions or (), target[-1].doc.table if target else None)


def _start_version(update: ObjectUpdate) -> int | None:
    if update.start_version is not None and update.type == "SCHEMA":
        raise InvalidInput("start_version is only for tables, not for whole schemas", field="start_version")
    return update.start_version
