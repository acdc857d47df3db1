"""Records after the first one of a line of JSON, which Spark's reader ignores silently."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.pipeline.ingest.crowded_lines import may_be_crowded, rests_of


@pytest.mark.parametrize(
    "text",
    [
        *(b'{"id":1}{"id":2}', b'{"id":1} {"id":2}', b"{}{}", b'{"id":1}\n\n{}{"id":2}\n', b'{"id":1}\t  {"id":2}'),
        *(b'{"id":1},{"id":2}', b'[1]\n{"id":1} , {"id":2}', b'[\n{"tags":[{}, {}]}, {"id":2}\n'),
    ],
)
def test_a_record_behind_another_one_is_seen(text: bytes) -> None:
    assert may_be_crowded(text)


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b" {", b",{", b'{"id":1}\n{"id":2}', b'{"at": {"x": 1}}', b'[{"a":1}, {"a":2}]'),
        *(b'{"id":1},\n{"id":2}\n', b'{}\n{"a": [{"b":[{}]},\t{"c":[]} , {}]}\n'),
    ],
)
def test_one_record_on_each_line_is_not_crowded(text: bytes) -> None:
    assert not may_be_crowded(text)


@given(st.lists(st.sampled_from([b"{", b"}", b" ", b",", b"a", b"\n"])).map(b"".join))
def test_every_opening_brace_behind_a_closing_one_is_seen(text: bytes) -> None:
    assert may_be_crowded(text) == bool(re.search(rb"\} *,? *\{", text))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_what_follows_the_first_record_has_the_number_of_its_line(tmp_path: Path, pack: type[bytes]) -> None:
    file = tmp_path / ("a.json" if pack is bytes else "a.json.gz")
    file.write_bytes(
        pack(
            b'{"id":1}\n {"id":2}{"id":3} {"id":4}\n{"id":"}{"}\n{"id":5}{"id":"caf\xe9"}\n{id}{"id":6}\n'
            b'{"id":7},\t{"id":8},\n'
        )
    )
    assert list(rests_of(str(file))) == [(2, '{"id":3} {"id":4}'), (4, '{"id":"caf\ufffd"}'), (6, '{"id":8}')]
