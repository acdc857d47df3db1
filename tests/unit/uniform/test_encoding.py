"""Columns encoded as Avro, compared with fastavro record by record."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from moorage.uniform import encoding
from moorage.uniform.containers import avro_name

NUMBERS = [0, 1, -1, 63, 64, -64, -65, 127, 128, 300, -300, 2**31, -(2**31), 2**63 - 1, -(2**63)]


def encoded(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


def test_longs_are_those_of_fastavro() -> None:
    expected = [encoded("long", number) for number in NUMBERS]
    assert encoding.longs(np.array(NUMBERS, np.int64)).to_pylist() == expected
    assert [encoding.long(number) for number in NUMBERS] == expected
    assert encoding.longs(np.array([], np.int64)).to_pylist() == []


def test_optional_texts_are_those_of_fastavro() -> None:
    values = pa.array(["", "é" * 100, None])
    made = encoding.optional(encoding.texts(values.fill_null("")), values.is_valid())
    assert made.to_pylist() == [encoded(["null", "string"], value) for value in values.to_pylist()]


@pytest.mark.parametrize("sliced", [False, True])
def test_decimals_have_the_fewest_bytes(*, sliced: bool) -> None:
    unscaled = [0, 1, -1, 127, 128, -128, -129, 255, 256, -32768, -32769, 10**30, -(10**30)]
    values = pa.array([Decimal(number).scaleb(-2) for number in unscaled], pa.decimal128(38, 2))
    if sliced:
        values, unscaled = values[3:9], unscaled[3:9]
    expected = [n.to_bytes((n if n >= 0 else ~n).bit_length() // 8 + 1, "big", signed=True) for n in unscaled]
    assert encoding.big_endian_decimals(values).to_pylist() == expected


def test_maps_leave_out_keys_without_a_value_and_state_their_length() -> None:
    counts = np.array([5, 6], np.int64)
    pairs = [(1, encoding.longs(counts), pa.array([True, False])), (2, encoding.longs(counts), pa.array([True, False]))]
    schema = ["null", {"type": "array", "items": {"type": "record", "name": "p", "fields": [
        {"name": "key", "type": "int"}, {"name": "value", "type": "long"}]}}]  # fmt: skip
    found = [fastavro.schemaless_reader(io.BytesIO(each), schema, None) for each in encoding.maps(pairs).to_pylist()]
    assert found == [[{"key": 1, "value": 5}, {"key": 2, "value": 5}], []]
    assert encoding.maps(pairs).to_pylist()[0][:3] == b"\x02\x03\x08"


@pytest.mark.parametrize(("name", "expected"), [("day", "day"), ("2d", "_2d"), ("a b", "a_x20b"), ("é", "_xE9")])
def test_names_are_escaped_as_java_does(name: str, expected: str) -> None:
    assert avro_name(name) == expected
