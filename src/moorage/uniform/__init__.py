"""Conversion of Delta tables to Iceberg metadata (UniForm), over the same data files. Pure: bytes in, bytes out."""
