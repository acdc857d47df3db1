"""Our server beside those of others: the same requests by the same client, in turns, on one machine."""
