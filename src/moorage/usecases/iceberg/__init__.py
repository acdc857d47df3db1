"""Iceberg tables and views."""
