"""What a Delta table holds at a version: read from storage and ledger, kept while it is used."""
