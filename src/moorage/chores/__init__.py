"""Background chores of every server. They are small, repeatable, and safe to run on several servers together."""
