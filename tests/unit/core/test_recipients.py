"""The tokens, addresses and limits of recipients."""

from __future__ import annotations

import pytest

from moorage.core.errors import InvalidInput, Unauthenticated
from moorage.core.ids import SecurableId
from moorage.core.networks import parse_addresses
from moorage.core.recipients import (
    MAX_GRANTS,
    RecipientDetails,
    RecipientToken,
    activated,
    digest_of,
    granted,
    is_allowed_from,
    recipient_of_token,
    require_properties,
    require_token,
    rotated,
    token_text,
)

ID = SecurableId("01939c1e-5a6f-7cc1-9d3e-8f5a2b7c4d20")
SECRET = "A" * 43
TOKEN = token_text(ID, SECRET)


def token(id: str, *, digest: str | None = None, expires: int = 1_000) -> RecipientToken:
    return RecipientToken(id=id, created_at_ms=0, created_by="ann", expires_at_ms=expires, digest=digest)


def test_a_token_names_its_recipient() -> None:
    assert recipient_of_token(TOKEN) == ID


@pytest.mark.parametrize("text", ["", "moor_", TOKEN[:-1], TOKEN + "A", TOKEN.upper(), "x" + TOKEN, TOKEN + "\n"])
def test_other_texts_are_no_tokens(text: str) -> None:
    assert recipient_of_token(text) is None


def test_a_token_is_valid_until_it_expires() -> None:
    details = RecipientDetails(tokens=(token("1", digest=digest_of(TOKEN)),))
    require_token(details, TOKEN, 999)
    with pytest.raises(Unauthenticated, match="expired"):
        require_token(details, TOKEN, 1_000)


@pytest.mark.parametrize("wrong", [token_text(ID, "B" * 43), TOKEN[:-1] + "B", digest_of(TOKEN), ""])
def test_no_other_text_is_accepted(wrong: str) -> None:
    details = RecipientDetails(tokens=(token("1", digest=digest_of(TOKEN)), token("2")))
    with pytest.raises(Unauthenticated, match="not valid"):
        require_token(details, wrong, 0)


def test_a_rotation_keeps_the_former_token_for_the_grace_period() -> None:
    former, new = token("1", digest="d"), token("2")
    assert rotated([former], new, now_ms=100, grace_ms=50)[0].expires_at_ms == 150
    assert rotated([former], new, now_ms=100, grace_ms=5_000)[0].expires_at_ms == 1_000, "a rotation extends nothing"
    assert rotated([former], new, now_ms=100, grace_ms=0) == (new,)
    assert rotated([former], new, now_ms=1_000, grace_ms=50) == (new,), "an expired token is removed"


def test_a_rotation_replaces_a_link_that_was_never_used() -> None:
    assert rotated([token("1")], token("2"), now_ms=0, grace_ms=50) == (token("2"),)


def test_at_most_two_tokens_are_valid() -> None:
    two = [token("1", digest="d"), token("2", digest="e")]
    with pytest.raises(InvalidInput, match="existing_token_expire_in_seconds to 0"):
        rotated(two, token("3"), now_ms=0, grace_ms=50)
    assert rotated(two, token("3"), now_ms=0, grace_ms=0) == (token("3"),)


def test_an_activation_adds_the_digest_to_its_token_only() -> None:
    first, second = activated([token("1", digest="d"), token("2")], "2", "e", 7)
    assert (first.digest, second.digest, second.activated_at_ms) == ("d", "e", 7)


@pytest.mark.parametrize(
    ("peer", "allowed"),
    [
        ("192.0.2.7", True),
        ("192.0.2.8", False),
        ("198.51.100.200", True),
        ("::ffff:192.0.2.7", True),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        ("fe80::1%eth0", False),
        ("", False),
        ("localhost", False),
    ],
)
def test_a_recipient_with_a_list_is_allowed_from_its_addresses_only(peer: str, *, allowed: bool) -> None:
    listed = parse_addresses(["192.0.2.7", "198.51.100.0/24", "2001:db8::/32"], "ip_access_list")
    assert is_allowed_from(listed, peer) is allowed


def test_without_a_list_every_address_is_allowed() -> None:
    assert is_allowed_from((), "")


def test_properties_have_the_limits_of_the_protocol() -> None:
    require_properties({f"k{n}": "v" * 1_000 for n in range(50)}, "properties")
    for wrong in ({f"k{n}": "" for n in range(51)}, {"k" * 256: ""}, {"k": "v" * 1_001}):
        with pytest.raises(InvalidInput, match="at most"):
            require_properties(wrong, "properties")


def test_a_share_is_granted_once_and_up_to_the_limit() -> None:
    assert granted((ID,), ID) == (ID,)
    full = tuple(SecurableId(str(n)) for n in range(MAX_GRANTS))
    assert granted(full, full[3]) == full
    with pytest.raises(InvalidInput):
        granted(full, ID)
