"""Use cases of Delta tables."""
