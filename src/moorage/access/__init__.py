"""Access control: the interface that every use case calls."""
