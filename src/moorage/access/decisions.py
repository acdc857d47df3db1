"""The decisions about one request, for the audit.

A caller that may not see an object gets the 404 of a missing one. Only the decision itself tells the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar

from moorage.core.securables import Securable

Decision = tuple[Sequence[Securable], str | None]
"""A chain, and what the caller lacks on its last object; None if it was allowed. An empty chain is the metastore."""


_decisions: ContextVar[list[Decision] | None] = ContextVar("moorage_decisions", default=None)


def begin_decisions() -> None:
    """Start a new list. A request may run in a copy of the context of the request before it on its connection."""
    _decisions.set([])


def note_decision(chain: Sequence[Securable], refusal: str | None) -> None:
    noted = _decisions.get()
    if noted is not None:
        noted.append((chain, refusal))


def decisions() -> Sequence[Decision]:
    """The decisions about this request so far. None are noted on a server without authentication."""
    return _decisions.get() or ()
