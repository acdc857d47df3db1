"""Pure parsing and validation of each table format's documents: bytes in, values or core errors out."""
