"""The tree of errors: complete in the docstring of its module, and rebuilt from receipts."""

import re

import pytest

from moorage.core import errors
from moorage.core.errors import Advice, MoorageError, leaves, revive

EVERY = sorted(set(leaves()), key=lambda leaf: leaf.__name__)


def test_the_docstring_names_every_error() -> None:
    documented = set(re.findall(r"\b[A-Z][a-z]+[A-Za-z]*\b", (errors.__doc__ or "").split("\n\n")[1]))
    assert {leaf.__name__ for leaf in EVERY} <= documented


@pytest.mark.parametrize("leaf", EVERY, ids=lambda leaf: leaf.__name__)
def test_an_error_is_rebuilt_from_its_receipt_unchanged(leaf: type[MoorageError]) -> None:
    first = leaf("words", field="name", latest=3)
    again = revive(type(first).__name__, first.message, first.field, first.details)
    assert (type(again), again.message, again.field, again.details) == (leaf, "words", "name", {"latest": 3})


@pytest.mark.parametrize("leaf", EVERY, ids=lambda leaf: leaf.__name__)
def test_an_error_that_a_retry_can_resolve_is_not_final(leaf: type[MoorageError]) -> None:
    # A transient error must not be recorded: every retry under the same key would get it.
    if leaf.advice in (Advice.SAME_REQUEST, Advice.ASK_FIRST):
        assert not leaf.is_final


def test_a_message_that_repeats_a_large_request_is_shortened_and_keeps_its_end() -> None:
    error = errors.InvalidInput(f"the name {'x' * 5_000_000} has no dot", field=f"names.{'y' * 5_000_000}")
    assert error.message.startswith("the name xxx")
    assert error.message.endswith("xxx has no dot")
    assert error.field is not None
    assert len(error.message) == len(error.field) == len(str(error)) == 2_000


def test_a_receipt_of_an_unknown_error_is_a_refusal() -> None:
    assert isinstance(revive("FromTheFuture", "words", None, {}), errors.InvalidInput)
