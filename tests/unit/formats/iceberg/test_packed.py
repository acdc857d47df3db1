"""Documents as the ledger stores them."""

from __future__ import annotations

import pytest

from moorage.formats.iceberg.encoded import written
from moorage.formats.iceberg.packed import pack, unpack
from tests.unit.formats.iceberg.tables import table, with_snapshots


@pytest.mark.parametrize("snapshots", [0, 1, 10, 100, 1000])
def test_a_document_of_any_size_is_unpacked_unchanged(snapshots: int) -> None:
    text = written(with_snapshots(snapshots)).text
    assert unpack(pack(text)) == text


def test_a_document_of_many_snapshots_is_packed_to_a_tenth_of_its_size() -> None:
    text = written(with_snapshots(100)).text
    assert 10 * len(pack(text)) < len(text)


def test_a_small_document_is_not_compressed() -> None:
    text = written(table()).text
    assert pack(text) == text
