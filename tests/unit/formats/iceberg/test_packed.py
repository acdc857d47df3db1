"""Documents as the ledger keeps them."""

from __future__ import annotations

from moorage.formats.iceberg.packed import pack, unpack
from moorage.formats.iceberg.written import written
from tests.unit.formats.iceberg.tables import with_snapshots


def test_a_document_of_many_snapshots_takes_a_tenth_of_its_size() -> None:
    text = written(with_snapshots(100)).text
    assert unpack(pack(text)) == text
    assert 10 * len(pack(text)) < len(text)
