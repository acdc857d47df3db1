"""Storage for table files. No operation reaches outside the root that a file belongs to."""
