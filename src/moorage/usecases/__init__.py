"""One file per intention, in the user's words: read, decide purely, append."""
