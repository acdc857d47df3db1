"""Workers: they take jobs over HTTP, like any client, and report the outcome."""
