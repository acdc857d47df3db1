"""The tree of errors: closed, drawn at the top of its module, and each with advice that can be followed."""

import re

import pytest

from moorage.core import errors
from moorage.core.errors import Advice, MoorageError, leaves, revive

EVERY = sorted(set(leaves()), key=lambda leaf: leaf.__name__)


def test_the_drawing_names_every_error() -> None:
    drawn = set(re.findall(r"\b[A-Z][a-z]+[A-Za-z]*\b", (errors.__doc__ or "").split("\n\n")[1]))
    assert {leaf.__name__ for leaf in EVERY} <= drawn


@pytest.mark.parametrize("leaf", EVERY, ids=lambda leaf: leaf.__name__)
def test_an_error_comes_back_from_its_receipt_as_it_was(leaf: type[MoorageError]) -> None:
    first = leaf("words", field="name", latest=3)
    again = revive(type(first).__name__, first.message, first.field, first.details)
    assert (type(again), again.message, again.field, again.details) == (leaf, "words", "name", {"latest": 3})


@pytest.mark.parametrize("leaf", EVERY, ids=lambda leaf: leaf.__name__)
def test_only_an_error_that_stays_is_final(leaf: type[MoorageError]) -> None:
    # What may pass by itself must not be remembered: a retry would hear of it for ever.
    if leaf.advice in (Advice.SAME_REQUEST, Advice.ASK_FIRST):
        assert not leaf.is_final


def test_words_that_repeat_a_large_request_are_shortened_and_keep_their_end() -> None:
    error = errors.InvalidInput(f"the name {'x' * 5_000_000} has no dot", field=f"names.{'y' * 5_000_000}")
    assert error.message.startswith("the name xxx")
    assert error.message.endswith("xxx has no dot")
    assert error.field is not None
    assert len(error.message) == len(error.field) == len(str(error)) == 2_000


def test_a_receipt_of_an_unknown_error_is_still_a_refusal() -> None:
    assert isinstance(revive("FromTheFuture", "words", None, {}), errors.InvalidInput)
