"""Moving whole ledgers about: backup, restore, SQLite to PostgreSQL.

One mechanism: rows of every table in the order of its key, hashed on the way. A backup is one SQLite file with
the ledger's own tables, whatever it was made from, and it carries what its tables must hash to.
"""

STEPS = (
    "transfer.copied",
    "transfer.compared",
    "transfer.renamed",
    "transfer.filled",
    "transfer.committed",
)
"""Where a test may kill a transfer (see `ledger.faults`)."""
