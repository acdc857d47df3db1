"""A typed client of a Moorage server, used by programs, the command line and workers."""

from moorage.client.connection import Client
from moorage.client.errors import ClientError

__all__ = ["Client", "ClientError"]
