"""What a principal may do to an object. `moorage.access` decides; use cases only ask."""

from __future__ import annotations

from enum import StrEnum


class Privilege(StrEnum):
    BROWSE = "browse"
    """See the object and its description."""
    READ = "read"
    """Read its data."""
    CREATE = "create"
    """Create children in it."""
    CREATE_SHARE = "create share"
    """Create shares, in the metastore."""
    CREATE_RECIPIENT = "create recipient"
    """Create recipients, in the metastore."""
    MODIFY = "modify"
    """Change its description or commit to it."""
    MANAGE = "manage"
    """Rename, drop or undrop it, or change its owner."""
    FOLLOW = "follow"
    """Read the feed of the whole metastore."""
    WORK = "work"
    """Lease jobs and report their results."""
