"""Kits, builders and real servers for tests. Nothing outside the tests imports this."""
