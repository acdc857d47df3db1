"""Notes: direct writes that are not part of history, on the writer's connection."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from typing import cast

from moorage.core.ids import SecurableId
from moorage.core.reports import ReportKind
from moorage.ledger import rows
from moorage.ledger.sqlite.writer import Note

_UNSTAGE = "delete from staged where table_id = ? and ref = ? and version <= ?"


def record_published(table: SecurableId, ref: str, version: int, *, by_client: bool) -> Note:
    def note(db: sqlite3.Connection, now_ms: int) -> None:
        db.execute(
            "insert into published (table_id, ref, version, claimed) "
            "select id, ?, ?, ? from securable where id = ? on conflict do update set "  # none if erased
            "version = max(version, excluded.version), claimed = max(claimed, excluded.claimed)",
            (ref, version, version if by_client else -1, table),
        )
        db.execute(_UNSTAGE, (table, ref, version))

    return note


def record_durable(versions: Mapping[tuple[SecurableId, str], int]) -> Note:
    lines = [(*line, version) for line, version in versions.items()]

    def note(db: sqlite3.Connection, now_ms: int) -> None:
        db.executemany(_UNSTAGE, lines)

    return note


def store_report(table: SecurableId, version: int, body: bytes, kind: ReportKind) -> Note:
    def note(db: sqlite3.Connection, now_ms: int) -> None:
        db.execute(
            f"insert into report as r select id, ?, ?, ?, ? from securable where id = ? {rows.ON_REPORT_CONFLICT}",
            (kind, version, now_ms, body, table),
        )

    return note


def delete_reports(table: SecurableId, kind: ReportKind, below: int, limit: int) -> Note:
    def note(db: sqlite3.Connection, now_ms: int) -> int:
        return db.execute(
            "delete from report where (table_id, kind, version) in ("
            "select table_id, kind, version from report where table_id = ? and kind = ? and version < ? limit ?)",
            (table, kind, below, limit),
        ).rowcount

    return note


def delete_expired_receipts(limit: int) -> Note:
    def note(db: sqlite3.Connection, now_ms: int) -> int:
        return db.execute(
            "delete from receipt where (caller, key) in (select caller, key from receipt where until_ms < ? limit ?)",
            (now_ms, limit),
        ).rowcount

    return note


def page_secret(db: sqlite3.Connection, now_ms: int) -> bytes:
    """The secret of page tokens, created on first use."""
    db.execute("insert into secret (name, value) values ('page', ?) on conflict do nothing", (os.urandom(32),))
    return cast(bytes, db.execute("select value from secret where name = 'page'").fetchone()[0])
