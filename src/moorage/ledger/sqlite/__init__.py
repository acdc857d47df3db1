"""The embedded store: one file, one process, one writer thread."""

from moorage.ledger.sqlite.store import SqliteLedger

__all__ = ["SqliteLedger"]
