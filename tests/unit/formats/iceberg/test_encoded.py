"""Metadata as JSON: text that is copied from the previous version decodes to the same document."""

from __future__ import annotations

import msgspec
import pytest

from moorage.formats.iceberg.documents import Document
from moorage.formats.iceberg.encoded import written
from tests.unit.formats.iceberg.tables import add, apply, set_ref, snapshot, table, with_snapshots

_BEFORE = with_snapshots(3)


@pytest.mark.parametrize(
    "after",
    [
        _BEFORE,
        apply(_BEFORE, add(4, parent=3), set_ref(4)),
        apply(_BEFORE, add(4, parent=3), set_ref(4), add(5, parent=4), set_ref(5)),
        apply(_BEFORE, {"action": "set-properties", "updates": {"owner": "ann"}}),
        apply(_BEFORE, {"action": "remove-snapshots", "snapshot-ids": [1]}),
        apply(_BEFORE, {"action": "remove-snapshots", "snapshot-ids": [3]}, add(4), set_ref(4)),
        apply(_BEFORE, {"action": "remove-snapshots", "snapshot-ids": [1, 2, 3]}),
    ],
    ids=["same", "one more", "two more", "property", "first removed", "last replaced", "all removed"],
)
def test_text_copied_from_the_previous_version_decodes_to_the_document(after: Document) -> None:
    before = written(_BEFORE, written(with_snapshots(1)), prefix=b"[1, ", suffix=b"]")
    found = written(after, before, prefix=b"[22, ", suffix=b"]")
    assert msgspec.json.decode(found.text) == [22, after]
    for name, span in found.lists.items():
        assert msgspec.json.decode(found.text[span]) == after[name]


def test_the_first_snapshots_follow_an_empty_list() -> None:
    after = apply(table(), add(1), set_ref(1))
    assert msgspec.json.decode(written(after, written(table())).text) == after


def test_only_the_new_snapshot_is_encoded_and_the_others_are_copied() -> None:
    after = apply(_BEFORE, add(4, parent=3), set_ref(4))
    before = written(_BEFORE)
    marked = before._replace(text=before.text.replace(b"snap-1.avro", b"SNAP-1.AVRO"))
    found = written(after, marked).text
    assert b"SNAP-1.AVRO" in found
    assert b"snap-4.avro" in found


def test_a_snapshot_replaced_by_an_equal_one_is_encoded_again() -> None:
    before = {**_BEFORE, "snapshots": [snapshot(1, draft=1)]}
    after = {**_BEFORE, "snapshots": [snapshot(1, draft=True)]}
    assert before == after
    assert b'"draft":true' in written(after, written(before)).text


def test_a_document_without_growing_lists_is_encoded() -> None:
    view = {"view-uuid": "u", "versions": [{"version-id": 1}]}
    assert msgspec.json.decode(written(view, written({"view-uuid": "v"})).text) == view
