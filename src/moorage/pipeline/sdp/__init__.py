"""Runs of Spark's declarative pipelines (SDP): checked, one at a time, with views that are published together."""
