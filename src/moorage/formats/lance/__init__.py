"""Pure functions that read Lance's files."""
