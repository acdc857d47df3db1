"""Use cases, one file per intention: read, decide, append."""
