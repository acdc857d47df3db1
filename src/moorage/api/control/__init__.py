"""The control API of Unity Catalog: users, service principals, groups and tokens."""

from moorage.api.control import groups, me, service_principals, tokens, users
from moorage.api.control.api import control
from moorage.api.control.sessions import sessions

__all__ = ["control", "groups", "me", "service_principals", "sessions", "tokens", "users"]
