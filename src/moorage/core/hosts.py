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


def is_url(text: str, *schemes: str, needs_host: bool = True) -> bool:
    """Whether text is a URL of one of these schemes. Without a host it leads to a socket of this machine."""
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and parts.port != 0 and bool(parts.hostname or not needs_host)
    except ValueError:  # a port that there cannot be, or half of an IPv6 address
        return False
