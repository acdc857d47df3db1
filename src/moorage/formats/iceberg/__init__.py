"""Iceberg's documents: table and view metadata as plain JSON values, and the updates that change them."""
