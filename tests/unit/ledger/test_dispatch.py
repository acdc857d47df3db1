"""Tables that dispatch by the type of a change or an expectation have an entry for every type.

mypy sees a `match` that lacks a case, but not a dictionary that lacks a key.
"""

import sqlite3
from typing import Any, get_args

from moorage.core.entries import AccessIs, Change, Drop, Erase, Expect, NameFree, Purge, Rename, Undrop
from moorage.core.securables import SHELF_OF, Kind
from moorage.ledger import batch
from moorage.ledger.postgres import arguments
from moorage.ledger.sqlite.changes import Changes
from moorage.ledger.sqlite.checks import Checks

CHANGES: set[type[Any]] = set(get_args(Change))
EXPECTS: set[type[Any]] = set(get_args(Expect))


def test_both_stores_apply_every_change() -> None:
    assert set(Changes(sqlite3.connect(":memory:"))._handlers) == CHANGES
    assert set(arguments._HANDLERS) == CHANGES


def test_both_stores_check_every_expectation() -> None:
    checked_elsewhere = {NameFree, AccessIs}  # their check needs more than the expectation
    assert set(Checks(sqlite3.connect(":memory:"))._checks) | checked_elsewhere == EXPECTS
    assert set(arguments._EXPECTATION_ROWS) == EXPECTS


def test_footprints_cover_every_change_and_expectation() -> None:
    alone = {Rename, Drop, Undrop, Purge, Erase}
    assert set(batch._OF_CHANGE) == CHANGES - alone
    assert set(batch._OF_EXPECT) == EXPECTS


def test_every_kind_of_object_has_a_shelf() -> None:
    assert set(SHELF_OF) == set(Kind)
