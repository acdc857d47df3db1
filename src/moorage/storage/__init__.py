"""Files: read, written once, published, deleted; never past the root they belong to."""
