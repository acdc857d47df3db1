"""The form of a token."""

import pytest

from moorage import fresh
from moorage.core.tokens import digest_of, is_token, new_token, parse_token

SECRET = fresh.secret()


def test_a_token_names_its_object() -> None:
    id = fresh.securable_id()
    text = new_token(id, SECRET)
    token = parse_token(text)
    assert token is not None
    assert token.id == id
    assert text.startswith("moor_")


def test_a_token_matches_its_own_digest_only() -> None:
    text = new_token(fresh.securable_id(), SECRET)
    assert is_token(text, digest_of(text))
    assert not is_token(text, digest_of(new_token(fresh.securable_id(), SECRET)))
    assert text not in digest_of(text)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text.upper(),
        lambda text: text.replace("moor_", "dapi_"),
        lambda text: " " + text,
        lambda text: text + "\n",
        lambda text: "",
        lambda text: "eyJhbGciOiJub25lIn0.e30.",
    ],
)
def test_another_form_is_not_a_token(change: object) -> None:
    assert callable(change)
    assert parse_token(change(new_token(fresh.securable_id(), SECRET))) is None


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="43"):
        new_token(fresh.securable_id(), "short")
