"""Compares our server with others: the same requests from the same client, in turns, on one machine."""
