"""Benchmarks. Results are ratios measured in one run, because absolute times vary on a shared machine."""
