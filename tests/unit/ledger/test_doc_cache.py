"""The cache of documents that were read from PostgreSQL."""

from collections.abc import Sequence
from typing import Any

from moorage.core.securables import Doc
from moorage.ledger import rows
from moorage.ledger.postgres.doc_cache import Docs


def row(id: str, comment: str) -> Sequence[Any]:
    doc = rows.encode(Doc(comment=comment))
    return (id, "table", "", "t", "me", 1, 0, "me", 0, "me", None, None, False, None, doc, None)


def test_equal_bytes_are_parsed_once_and_changed_bytes_again() -> None:
    docs = Docs()
    first = docs.securable(row("a", "one")).doc
    assert docs.securable(row("a", "one")).doc is first
    assert docs.securable(row("b", "two")).doc.comment == "two"
    assert docs.securable(row("a", "three")).doc.comment == "three"


def test_the_cache_does_not_grow_beyond_its_limit() -> None:
    docs = Docs(most_bytes=10_000)
    first = docs.securable(row("a", "x")).doc
    for n in range(10):
        docs.securable(row(f"large {n}", "x" * 1_000))
    assert docs.securable(row("a", "x")).doc == first
    assert docs.securable(row("a", "x")).doc is not first
