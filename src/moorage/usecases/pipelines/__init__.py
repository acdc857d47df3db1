"""Pipelines: register a project, run it as a job, one run at a time."""
