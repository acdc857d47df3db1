"""Each wire protocol is a package: it parses, calls one use case, answers."""
