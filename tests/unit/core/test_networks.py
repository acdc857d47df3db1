"""IP addresses in lists, and the address of a client behind proxies."""

from __future__ import annotations

import pytest

from moorage.core.errors import InvalidInput
from moorage.core.networks import client_address, is_among, parse_addresses

PROXIES = ("10.0.0.0/8", "2001:db8::7")


@pytest.mark.parametrize("text", ["", "x", "192.0.2", "192.0.2.0/33", "::1/129"])
def test_an_address_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="not an IP address"):
        parse_addresses([text], "ip_access_list")


def test_an_address_that_cannot_be_read_is_in_no_network() -> None:
    assert is_among(["0.0.0.0/0"], "192.0.2.7")
    assert not is_among(["0.0.0.0/0"], "")
    assert not is_among(["0.0.0.0/0"], "2001:db8::1")


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "client"),
    [
        ("10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.7:4711", "192.0.2.7"),
        ("10.0.0.1", "[2001:db8::1]:4711", "2001:db8::1"),
        ("10.0.0.1", "::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("2001:db8::7", "192.0.2.7, 10.0.0.2", "192.0.2.7"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "198.51.100.1, 192.0.2.7", "192.0.2.7"),
        ("192.0.2.7", "198.51.100.1", "192.0.2.7"),
        ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("", "198.51.100.1", ""),
    ],
    ids=[
        "one proxy",
        "with a port",
        "IPv6 with a port",
        "mapped client",
        "mapped proxy",
        "two proxies",
        "client among the proxies",
        "stated by the client",
        "from another address",
        "not an address",
        "empty",
        "unknown peer",
    ],
)
def test_a_client_has_the_last_address_that_is_no_proxy(peer: str, forwarded_for: str, client: str) -> None:
    assert client_address(peer, forwarded_for, PROXIES) == client
