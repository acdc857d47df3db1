"""Host names, addresses and URLs: which are loopback, and which are valid."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Whether the host is this machine's loopback interface."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_http_url(text: str) -> bool:
    """Whether text is an http or https URL with a host."""
    return _is_url(text, "http", "https") and bool(urlsplit(text).hostname)


def is_plain_http_url(text: str) -> bool:
    """Whether text is an http or https URL of a host only: without a path, a query or a password."""
    return is_http_url(text) and urlsplit(text)[2:] == ("", "", "") and "@" not in text


def has_ip_address(url: str) -> bool:
    """Whether the host of the URL is an IP address."""
    try:
        ipaddress.ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return True


def is_postgres_url(text: str) -> bool:
    """Whether text is a PostgreSQL URL: with one host, several separated by commas, or none (a Unix socket)."""
    scheme, _, rest = text.partition("://")
    hosts = rest.partition("/")[0].rpartition("@")[2].split(",")
    return all(_is_url(f"{scheme}://{host}", "postgresql", "postgres") for host in hosts)


def _is_url(text: str, *schemes: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in schemes and parts.port != 0
    except ValueError:  # an invalid port or an incomplete IPv6 address
        return False
