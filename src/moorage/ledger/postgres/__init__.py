"""The store for several servers, all of which may write."""

from moorage.ledger.postgres.store import PostgresLedger

__all__ = ["PostgresLedger"]
