"""What every server does by itself: small, repeatable, safe beside its twins on other servers."""
