"""Lance: what its files say, as pure functions."""
