"""Storage credentials and external locations: which object stores the catalog may use, and with which keys."""
