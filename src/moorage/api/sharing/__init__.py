"""The Delta Sharing protocol."""

from moorage.api.sharing import credentials, files, listings, tables
from moorage.api.sharing.api import sharing

__all__ = ["credentials", "files", "listings", "sharing", "tables"]
