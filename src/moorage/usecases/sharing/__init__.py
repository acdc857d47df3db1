"""Delta Sharing: what recipients may read, and how they read it."""
