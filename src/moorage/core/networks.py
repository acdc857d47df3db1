"""IP addresses: which are in a list of addresses and networks, and which one a request comes from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from moorage.core.errors import InvalidInput

MAX_ADDRESSES: Final = 100


def parse_addresses(texts: Sequence[str], field: str) -> tuple[str, ...]:
    """The addresses and networks in their normal form, or InvalidInput."""
    if len(texts) > MAX_ADDRESSES:
        raise InvalidInput(f"{field} has {len(texts)} entries; at most {MAX_ADDRESSES} are allowed", field=field)
    found = []
    for text in texts:
        try:
            plain = text.strip()
            found.append(str(ip_network(plain, strict=False) if "/" in plain else ip_address(plain)))
        except ValueError:
            raise InvalidInput(
                f"{field}: {text!r} is not an IP address or network; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/32",
                field=field,
            ) from None
    return tuple(found)


def is_among(addresses: Sequence[str], address: str) -> bool:
    """Whether one of these addresses and networks contains the address. One that cannot be read is in none."""
    try:
        found = _plain(ip_address(address.partition("%")[0]))
    except ValueError:
        return False
    return any(network.version == found.version and found in network for network in map(_network, addresses))


@lru_cache(maxsize=1024)
def client_address(peer: str, forwarded_for: str, proxies: tuple[str, ...]) -> str:
    """The address of the client of a request that may have passed trusted proxies.

    A proxy appends the address of its client to X-Forwarded-For. So the last address that is not a proxy's is the
    client's. What is in front of it was stated by that client, which may state anything.
    """
    address = peer
    for stated in reversed(forwarded_for.split(",")):
        if not is_among(proxies, address):
            break
        found = _without_port(stated.strip())
        if found is None:
            break
        address = found
    return address


def _without_port(text: str) -> str | None:
    """The address in `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::1` or `[2001:db8::1]:4711`; None if there is none."""
    host = text[1:].partition("]")[0] if text.startswith("[") else text
    if host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return str(_plain(ip_address(host)))
    except ValueError:
        return None


def _plain(address: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """A server that listens on IPv6 sees IPv4 clients as mapped addresses."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


@lru_cache(maxsize=10_000)
def _network(text: str) -> IPv4Network | IPv6Network:
    return ip_network(text)
