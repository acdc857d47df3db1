"""Writes each change to the tables. The expectations have been checked before.

Statements name their columns, because the schema of a later release may have more of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import msgspec

from moorage.core.entries import (
    Attachment,
    Change,
    Commit,
    Create,
    Draft,
    Drop,
    DropLine,
    DropVersions,
    Erase,
    FinishJob,
    NewJob,
    Purge,
    RaiseFloor,
    Rename,
    SetGrants,
    Undrop,
    Update,
)
from moorage.core.ids import SecurableId
from moorage.core.names import name_key
from moorage.core.securables import SHELF_OF
from moorage.ledger.rows import VERSION_COLUMNS

_FREES_NAME = (Drop, Rename)
_TABLES_KEYED_BY_VERSION = ("version", "document", "staged")
_TABLES_WITH_TABLE_ID = ("head", "version", "document", "staged", "published", "report")


_encode_into = msgspec.json.Encoder().encode_into


def blob(value: Any) -> bytearray:
    """Encode a value for storage. Not as bytes: for those sqlite3 looks for an adapter, which doubles the time."""
    stored = bytearray()
    _encode_into(value, stored)
    return stored


def _staged_by_version(attachments: tuple[Attachment, ...]) -> dict[tuple[SecurableId, str, int], bytes]:
    return {(a.table, a.ref, a.version): a.staged for a in attachments if a.staged is not None}


class Changes:
    """Applies changes on the writer's connection, inside its transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._run = db.cursor().execute  # one cursor for all statements: none of them returns rows
        self._staged: dict[tuple[SecurableId, str, int], bytes] = {}
        """Staged bytes of the current draft. One insert costs half of an insert and a later update with the bytes."""
        self._handlers: dict[type[Any], Callable[[Any, int, int, str], None]] = {
            Create: self._create,
            Update: self._update,
            SetGrants: self._set_grants,
            Rename: self._rename,
            Drop: self._drop,
            Undrop: self._undrop,
            Purge: self._purge,
            Erase: self._erase,
            Commit: self._commit,
            RaiseFloor: self._raise_floor,
            DropVersions: self._drop_versions,
            DropLine: self._drop_line,
            FinishJob: self._finish_job,
        }

    def apply(self, draft: Draft, seq: int, at_ms: int) -> None:
        changes = draft.changes
        if len(changes) > 1:
            self._release_names(changes)
        self._staged = _staged_by_version(draft.attachments) if draft.attachments else {}
        for change in changes:
            self._handlers[type(change)](change, seq, at_ms, draft.caller)
        for job in draft.jobs:
            self._enqueue(job, at_ms)
        for attachment in draft.attachments:
            self._attach(attachment, at_ms)

    def _attach(self, attachment: Attachment, at_ms: int) -> None:
        key = (attachment.table, attachment.ref, attachment.version)
        if attachment.document is not None:
            self._store_document(key, attachment.document)
        if attachment.unsynced:
            self._run("insert or ignore into staged (table_id, ref, version, at_ms) values (?, ?, ?, ?)", (*key, at_ms))

    def _store_document(self, key: tuple[SecurableId, str, int], document: bytes) -> None:
        """Store a document. Overwriting the oldest row, if only that one expires, touches a third fewer pages."""
        insert = "insert into document (table_id, ref, version, bytes) values (?, ?, ?, ?)"
        if key[2] < 2:  # no older document can exist
            self._run(insert, (*key, document))
            return
        overwritten = self._run(
            "update document set version = ?3, bytes = ?4 where table_id = ?1 and ref = ?2 and version = ?3 - 2 and "
            "version = (select min(version) from document where table_id = ?1 and ref = ?2)",
            (*key, document),
        )
        if not overwritten.rowcount:
            self._run(insert, (*key, document))
            self._run("delete from document where table_id = ? and ref = ? and version < ? - 1", key)

    def _release_names(self, changes: tuple[Change, ...]) -> None:
        """Move name keys aside, so that two objects can swap names in one draft under the unique index.

        No name contains U+0001, so a key with this prefix collides with no other.
        """
        for change in changes:
            if isinstance(change, _FREES_NAME):
                self._run("update securable set name_key = char(1) || name_key where id = ?", (change.id,))

    def _create(self, change: Create, seq: int, at_ms: int, caller: str) -> None:
        expires_at = None if change.lifetime_ms is None else at_ms + change.lifetime_ms
        self._run(
            "insert into securable (id, kind, shelf, parent, name, name_key, owner, revision, created_at, created_by, "
            "updated_at, updated_by, expires_at, doc) values (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)",
            (
                change.id,
                change.kind.value,
                SHELF_OF[change.kind].value,
                change.parent,
                change.name,
                name_key(change.name),
                change.owner,
                at_ms,
                caller,
                at_ms,
                caller,
                expires_at,
                blob(change.doc),
            ),
        )
        if change.place is not None:
            self._run("insert into place (path, securable) values (?, ?)", (change.place, change.id))

    def _update(self, change: Update, seq: int, at_ms: int, caller: str) -> None:
        self._run(
            "update securable set doc = ?, owner = coalesce(?, owner), revision = revision + 1, "
            "updated_at = ?, updated_by = ? where id = ?",
            (blob(change.doc), change.owner, at_ms, caller, change.id),
        )
        if change.place is not None:
            self._run(
                "insert into place (path, securable) select ?1, ?2 "
                "where not exists (select 1 from place where path = ?1 and securable = ?2)",
                (change.place, change.id),
            )

    def _set_grants(self, change: SetGrants, seq: int, at_ms: int, caller: str) -> None:
        self._run(
            "update securable set grants = ?, revision = revision + 1, updated_at = ?, updated_by = ? where id = ?",
            (blob(change.grants) if change.grants else None, at_ms, caller, change.id),
        )

    def _rename(self, change: Rename, seq: int, at_ms: int, caller: str) -> None:
        self._run(
            "update securable set parent = ?, name = ?, name_key = ?, revision = revision + 1, "
            "updated_at = ?, updated_by = ? where id = ?",
            (change.parent, change.name, name_key(change.name), at_ms, caller, change.id),
        )

    def _drop(self, change: Drop, seq: int, at_ms: int, caller: str) -> None:
        self._run(
            "update securable set dropped_at = ?, purge_at = ?, name_key = ltrim(name_key, char(1)), "
            "revision = revision + 1, updated_at = ?, updated_by = ? where id = ?",
            (at_ms, at_ms + change.hold_ms, at_ms, caller, change.id),
        )

    def _undrop(self, change: Undrop, seq: int, at_ms: int, caller: str) -> None:
        self._run(
            "update securable set dropped_at = null, purge_at = null, name = ?, name_key = ?, "
            "revision = revision + 1, updated_at = ?, updated_by = ? where id = ?",
            (change.name, name_key(change.name), at_ms, caller, change.id),
        )

    def _purge(self, change: Purge, seq: int, at_ms: int, caller: str) -> None:
        self._run("update securable set purged = 1, revision = revision + 1 where id = ?", (change.id,))

    def _erase(self, change: Erase, seq: int, at_ms: int, caller: str) -> None:
        for id in change.ids:
            self._run("delete from securable where id = ?", (id,))
            self._run("delete from place where securable = ?", (id,))
            for table in _TABLES_WITH_TABLE_ID:
                self._run(f"delete from {table} where table_id = ?", (id,))

    def _commit(self, change: Commit, seq: int, at_ms: int, caller: str) -> None:
        target = source = None
        if change.publish is not None:
            target, source = change.publish.target, change.publish.source
            key = (change.table, change.ref, change.version)
            self._run(
                "insert into staged (table_id, ref, version, at_ms, bytes) values (?, ?, ?, ?, ?)",
                (*key, at_ms, self._staged.get(key)),
            )
        self._run(
            f"insert into version ({VERSION_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                change.table,
                change.ref,
                change.version,
                seq,
                at_ms,
                change.timestamp_ms,
                change.operation,
                change.file,
                change.size,
                change.digest,
                target,
                source,
                blob(change.details),
            ),
        )
        self._run(
            "insert into head (table_id, ref, version, timestamp_ms, row_id_mark) values (?, ?, ?, ?, ?) "
            "on conflict do update set version = excluded.version, "
            "timestamp_ms = excluded.timestamp_ms, row_id_mark = coalesce(excluded.row_id_mark, row_id_mark)",
            (change.table, change.ref, change.version, change.timestamp_ms, change.row_id_mark),
        )

    def _raise_floor(self, change: RaiseFloor, seq: int, at_ms: int, caller: str) -> None:
        self._run(
            "update head set floor = max(floor, ?) where table_id = ? and ref = ?",
            (change.version, change.table, change.ref),
        )

    def _drop_versions(self, change: DropVersions, seq: int, at_ms: int, caller: str) -> None:
        for table in _TABLES_KEYED_BY_VERSION:
            self._run(
                f"delete from {table} where table_id = ? and ref = ? and version between ? and ?",
                (change.table, change.ref, change.first, change.last),
            )

    def _drop_line(self, change: DropLine, seq: int, at_ms: int, caller: str) -> None:
        for table in ("head", *_TABLES_KEYED_BY_VERSION, "published"):
            self._run(f"delete from {table} where table_id = ? and ref = ?", (change.table, change.ref))

    def _finish_job(self, change: FinishJob, seq: int, at_ms: int, caller: str) -> None:
        result = None if change.result is None else blob(change.result)
        self._run(
            "update job set state = ?, result = ?, error = ?, ended_at = ? where id = ?",
            (change.state.value, result, change.error, at_ms, change.job),
        )
        # The row stays: attempts and progress of an ended job are shown.
        self._run("update lease set fence = '', until_ms = 0 where job = ?", (change.job,))

    def _enqueue(self, job: NewJob, at_ms: int) -> None:
        self._run(
            "insert into job (id, kind, subject, dedupe, args, attempts, state, created_at, run_at) "
            "values (?, ?, ?, ?, ?, ?, 'open', ?, ?) on conflict do nothing",
            (
                job.id,
                job.kind,
                job.subject,
                job.dedupe,
                blob(job.args),
                job.attempts,
                at_ms,
                at_ms + job.delay_ms,
            ),
        )
