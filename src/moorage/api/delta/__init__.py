"""The Delta API at `/delta/v1`, which Spark uses since Delta 4.3."""

from moorage.api.delta import configuration, create, credentials, files, load, metrics, row_changes, update
from moorage.api.delta.api import delta

__all__ = ["configuration", "create", "credentials", "delta", "files", "load", "metrics", "row_changes", "update"]
