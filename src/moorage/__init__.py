"""Moorage: one catalog, the commit authority for Delta, Iceberg and Lance tables."""

__version__ = "0.1.0"
