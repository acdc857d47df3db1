"""The pages for browsers: log in, see addresses for clients, and manage personal tokens."""

from moorage.api.web import home, login, tokens
from moorage.api.web.api import web

__all__ = ["home", "login", "tokens", "web"]
