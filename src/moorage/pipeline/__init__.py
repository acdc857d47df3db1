"""Workers: they take jobs over HTTP, like any client, and report what came of them."""
