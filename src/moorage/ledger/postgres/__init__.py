"""The store for many servers: every one of them may write."""

from moorage.ledger.postgres.store import PostgresLedger

__all__ = ["PostgresLedger"]
