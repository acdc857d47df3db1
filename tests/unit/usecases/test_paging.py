"""Page tokens: opaque, authenticated, bound to one list, and spelled in one way."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.core.errors import InvalidInput
from moorage.usecases.catalog.paging import LARGEST_PAGE, page_size, seal, unseal

SECRET = b"s" * 32
TEXT = st.text(st.characters(codec="utf-8"), max_size=300)


@given(scope=TEXT, after=TEXT.filter(bool))
def test_a_token_gives_back_the_key_that_it_was_made_of(scope: str, after: str) -> None:
    assert unseal(SECRET, scope, seal(SECRET, scope, after)) == after


@given(scope=TEXT, other=TEXT, after=TEXT.filter(bool))
def test_a_token_opens_no_list_but_its_own(scope: str, other: str, after: str) -> None:
    if scope != other:
        with pytest.raises(InvalidInput):
            unseal(SECRET, other, seal(SECRET, scope, after))


@given(after=TEXT.filter(bool), data=st.data())
def test_any_other_text_is_refused_by_the_name_of_its_field(after: str, data: st.DataObject) -> None:
    token = seal(SECRET, "list", after)
    position = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from("ABab01-_=+/ ü"))
    changed = token[:position] + letter + token[position + 1 :]
    if changed != token:
        with pytest.raises(InvalidInput) as refusal:
            unseal(SECRET, "list", changed, field="pageToken")
        assert refusal.value.field == "pageToken"


@given(text=st.text(min_size=1, max_size=200))
def test_what_nobody_sealed_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        unseal(SECRET, "list", text)


def test_a_token_does_not_pass_with_another_servers_secret() -> None:
    with pytest.raises(InvalidInput):
        unseal(b"t" * 32, "list", seal(SECRET, "list", "a"))


def test_a_token_travels_in_a_query_without_encoding() -> None:
    token = seal(SECRET, "list", "ü" * 255)
    assert token.isascii()
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


def test_a_token_with_the_right_tag_and_no_text_is_refused() -> None:
    """Bytes that are no UTF-8 can only come from somebody with the secret; still no 500."""
    forged = base64.urlsafe_b64encode(b"x" * 16 + b"\xff\xfe").rstrip(b"=").decode()
    with pytest.raises(InvalidInput):
        unseal(SECRET, "list", forged)


@pytest.mark.parametrize("none", [None, ""])
def test_no_token_means_the_beginning(none: str | None) -> None:
    assert unseal(SECRET, "list", none) == ""


@pytest.mark.parametrize(
    ("asked", "given_out"), [(None, 100), (0, 100), (1, 1), (LARGEST_PAGE, LARGEST_PAGE), (10**9, LARGEST_PAGE)]
)
def test_a_page_is_as_large_as_asked_up_to_the_largest(asked: int | None, given_out: int) -> None:
    assert page_size(asked) == given_out


def test_a_negative_page_size_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidInput) as refusal:
        page_size(-1, field="maxResults")
    assert refusal.value.field == "maxResults"
