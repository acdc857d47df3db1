"""Iceberg's own REST compatibility kit, run against our server."""
