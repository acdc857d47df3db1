"""Snapshots of Delta tables: the content of a table at a version, read from storage and ledger, and cached."""
