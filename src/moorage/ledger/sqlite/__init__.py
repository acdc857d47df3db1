"""The embedded store: one file, one process, one writer."""

from moorage.ledger.sqlite.store import SqliteLedger

__all__ = ["SqliteLedger"]
