"""Contract kits, builders and real servers for tests. Only tests and benchmarks import this."""
