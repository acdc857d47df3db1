"""Delta: the schema, the lines of a commit, and what a catalog-managed table must be."""
