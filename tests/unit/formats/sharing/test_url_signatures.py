"""Signatures of URLs: made by columns, checked one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.formats.sharing.url_signatures import digests_of, is_signed, permit_key, sign, signed_urls

KEY = permit_key(b"secret", b"permit")


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1), min_size=1, max_size=5, unique=True), st.integers(0, 4))
def test_each_name_of_a_column_has_its_own_signature(names: list[bytes], start: int) -> None:
    kept = names[start:]
    found = sign(KEY, digests_of(names).slice(start)).to_pylist()
    assert len(found) == len(set(found)) == len(kept)
    for name, signature in zip(kept, found, strict=True):
        assert is_signed(KEY, name, signature)
        assert not is_signed(KEY, name + b"x", signature)
        assert not is_signed(permit_key(b"secret", b"another permit"), name, signature)
        assert not is_signed(permit_key(b"another secret", b"permit"), name, signature)


@pytest.mark.parametrize("wrong", [b"", b"0" * 32, b"0" * 31, b"0" * 64, "é".encode()])
def test_a_guessed_signature_is_not_accepted(wrong: bytes) -> None:
    assert not is_signed(KEY, b"name", wrong)


def test_urls_are_joined_where_there_is_a_name() -> None:
    names = [b"a", None, b"b"]
    columns = [pa.chunked_array([part, part]) for part in (pa.array(names, pa.binary()), digests_of(names))]
    found = signed_urls(KEY, b"https://x/", columns[0], b"?s=", columns[1]).to_pylist()
    assert found[1] is found[4] is None
    assert found[0] == found[3] == b"https://x/a?s=" + sign(KEY, digests_of([b"a"]))[0].as_py()
