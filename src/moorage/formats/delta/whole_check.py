"""The check of a staged commit against the state of its table, as one function. Pure.

A large commit is checked in another process, which has none of the server's objects. It returns only what the catalog
keeps: the actions of a million files would take the server as long to receive as to check.
"""

from __future__ import annotations

import msgspec

from moorage.core.versions import VersionKind
from moorage.formats.delta.commit_check import CommitContext, Proposal, check_commit, check_first_commit, version_kind
from moorage.formats.delta.contract import TableState, Terms, first_state, next_state
from moorage.formats.delta.paths import path_check_for


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A commit that may become the next version, or the first one."""

    kind: VersionKind
    state: TableState
    """The state of the table after it."""


def check_next(data: bytes, proposal: Proposal, context: CommitContext, before: TableState, table_id: str) -> Checked:
    """Check a staged commit. InvalidInput if it may not become the next version."""
    found = check_commit(data, proposal, context)
    after = next_state(before, found, version=proposal.version, timestamp_ms=proposal.timestamp_ms, table_id=table_id)
    return Checked(kind=version_kind(found.commit_info, found.summary), state=after)


def check_first(data: bytes, *, now_ms: int, location: str, table_id: str, terms: Terms) -> Checked:
    """Check the first commit of a table. InvalidInput if a catalog cannot manage such a table."""
    found = check_first_commit(data, now_ms=now_ms, inside=path_check_for(location))
    state = first_state(found, table_id=table_id, terms=terms)
    return Checked(kind=version_kind(found.commit_info, found.summary), state=state)
