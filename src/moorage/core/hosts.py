"""Hosts by name or address: which of them are this machine, and URLs that lead to one."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether whatever has this name is reached without leaving the machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_http_url(text: str) -> bool:
    """Whether text leads to a host by HTTP."""
    return _is_url(text, "http", "https") and bool(urlsplit(text).hostname)


def is_postgres_url(text: str) -> bool:
    """Whether text is a URL of PostgreSQL: of a host, of several with commas between them, or of none, for a socket."""
    scheme, _, rest = text.partition("://")
    hosts = rest.partition("/")[0].rpartition("@")[2].split(",")
    return all(_is_url(f"{scheme}://{host}", "postgresql", "postgres") for host in hosts)


def _is_url(text: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and parts.port != 0
    except ValueError:  # a port that there cannot be, or half of an IPv6 address
        return False
