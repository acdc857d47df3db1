"""The documents of each table format, read and judged purely: bytes in, values or core errors out."""
