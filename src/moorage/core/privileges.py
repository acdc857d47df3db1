"""What somebody may do to an object. Access decides who; use cases only ask."""

from __future__ import annotations

from enum import StrEnum


class Privilege(StrEnum):
    BROWSE = "browse"
    """See that it exists, and its description."""
    READ = "read"
    """Read the data behind it."""
    CREATE = "create"
    """Make children in it."""
    MODIFY = "modify"
    """Change its description or commit to it."""
    MANAGE = "manage"
    """Rename, drop, undrop it, or give it another owner."""
    FOLLOW = "follow"
    """Read the feed of the whole metastore."""
    WORK = "work"
    """Take jobs and report on them."""
