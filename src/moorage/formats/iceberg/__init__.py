"""Iceberg's documents: table and view metadata as plain JSON values, and what updates make of them."""
