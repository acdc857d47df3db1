"""From a decision to an entry of the ledger: prepare, append, retry."""
