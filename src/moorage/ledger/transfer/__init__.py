"""Transfers of whole ledgers: backup, restore, and the move from SQLite to PostgreSQL.

All use one mechanism: they copy the rows of every table in key order and hash them. A backup of either store is one
SQLite file with the ledger's tables and the digests that the tables must have.
"""

STEPS = (
    "transfer.copied",
    "transfer.compared",
    "transfer.renamed",
    "transfer.filled",
    "transfer.committed",
)
"""The steps at which a test can kill a transfer (see `ledger.faults`)."""
