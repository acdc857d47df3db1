"""Page tokens: opaque, authenticated, bound to one list, and with one spelling."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.usecases.catalog.paging import MAX_PAGE_SIZE, page_size, seal, unseal

SECRET = b"s" * 32
TEXT = st.text(st.characters(codec="utf-8"), max_size=300)


@given(scope=TEXT, after=TEXT.filter(bool))
def test_a_token_returns_the_key_that_it_was_made_of(scope: str, after: str) -> None:
    assert unseal(SECRET, scope, seal(SECRET, scope, after)) == after


@given(scope=TEXT, other=TEXT, after=TEXT.filter(bool))
def test_a_token_is_valid_for_its_own_list_only(scope: str, other: str, after: str) -> None:
    if scope != other:
        with pytest.raises(InvalidInput):
            unseal(SECRET, other, seal(SECRET, scope, after))


@given(after=TEXT.filter(bool), data=st.data())
def test_a_changed_token_is_refused_with_its_field(after: str, data: st.DataObject) -> None:
    token = seal(SECRET, "list", after)
    position = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("ABab01-_=+/ ü"))
    changed = token[:position] + letter + token[position + 1 :]
    if changed != token:
        with pytest.raises(InvalidInput) as refusal:
            unseal(SECRET, "list", changed, field="pageToken")
        assert refusal.value.field == "pageToken"


@given(text=st.text(min_size=1, max_size=200))
def test_text_that_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        unseal(SECRET, "list", text)


def test_a_token_is_invalid_under_another_secret() -> None:
    with pytest.raises(InvalidInput):
        unseal(b"t" * 32, "list", seal(SECRET, "list", "a"))


def test_a_token_needs_no_encoding_in_a_query() -> None:
    token = seal(SECRET, "list", "ü" * 255)
    assert token.isascii()
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_a_token_that_is_not_utf8_is_refused() -> None:
    """Only a client with the secret could make a valid one. It still gets no 500."""
    forged = base64.urlsafe_b64encode(b"x" * 16 + b"\xff\xfe").rstrip(b"=").decode()
    with pytest.raises(InvalidInput):
        unseal(SECRET, "list", forged)


@pytest.mark.parametrize("none", [None, ""])
def test_without_a_token_a_list_begins_at_its_start(none: str | None) -> None:
    assert unseal(SECRET, "list", none) == ""


@pytest.mark.parametrize(
    ("requested", "size"), [(None, 100), (0, 100), (1, 1), (MAX_PAGE_SIZE, MAX_PAGE_SIZE), (10**9, MAX_PAGE_SIZE)]
)
def test_a_page_has_the_requested_size_up_to_the_limit(requested: int | None, size: int) -> None:
    assert page_size(requested) == size


def test_a_negative_page_size_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidInput) as refusal:
        page_size(-1, field="maxResults")
    assert refusal.value.field == "maxResults"
