"""Every type in the forms that the specifications define."""

from __future__ import annotations

import json
import math
import struct
from fractions import Fraction
from typing import Any

import msgspec
import pytest

from moorage.core.errors import InvalidInput, Unsupported
from moorage.formats.iceberg.schemas import require_schema
from moorage.formats.iceberg.values import Value, decode, from_wire, parse_primitive, to_wire

UUID_BYTES = bytes.fromhex("eb26bdb1a1d84aa6990eda940875492c")

# type, bytes of a bound (Iceberg's single-value serialization), decoded value, PrimitiveTypeValue
GOLDEN: list[tuple[str, str, Value, Any]] = [
    ("boolean", "01", True, True),
    ("boolean", "00", False, False),
    ("int", "2A000000", 42, 42),
    ("int", "FFFFFFFF", -1, -1),
    ("long", "FFFFFFFFFFFFFF7F", 2**63 - 1, 9223372036854775807),
    ("float", "0000C03F", 1.5, 1.5),
    ("double", "77BE9F1A2FDD5E40", 123.456, 123.456),
    ("decimal(9,4)", "12D644", 1234500, "123.4500"),
    ("decimal(9, 4)", "FF", -1, "-0.0001"),
    ("decimal(9,0)", "02", 2, "2"),
    ("decimal(9,-20)", "02", 2, "2E+20"),
    ("decimal(38,2)", "4B3B4CA85A86C47A098A223FFFFFFFFF", 10**38 - 1, "9" * 36 + ".99"),
    ("string", "68656C6C6F", "hello", "hello"),
    ("uuid", UUID_BYTES.hex(), UUID_BYTES, "eb26bdb1-a1d8-4aa6-990e-da940875492c"),
    ("date", "1C360000", 13852, "2007-12-05"),
    ("date", "FFFFFFFF", -1, "1969-12-31"),
    ("date", "5AE02C00", 2941018, "+10022-03-27"),
    ("date", "9EDBF4FF", -730210, "-0030-10-03"),
    ("time", "406509E012000000", 81068123456, "22:31:08.123456"),
    ("timestamp", "C0B6540F5F400400", 1196676930123456, "2007-12-03T10:15:30.123456"),
    ("timestamp", "FFFFFFFFFFFFFFFF", -1, "1969-12-31T23:59:59.999999"),
    ("timestamptz", "C0B6540F5F400400", 1196676930123456, "2007-12-03T10:15:30.123456+00:00"),
    ("timestamp_ns", "15E1E9E253739B10", 1196676930123456789, "2007-12-03T10:15:30.123456789"),
    ("timestamptz_ns", "15E1E9E253739B10", 1196676930123456789, "2007-12-03T10:15:30.123456789+00:00"),
    ("fixed[3]", "78797A", b"xyz", "78797A"),
    ("binary", "00FFAB", b"\x00\xff\xab", "00FFAB"),
]


@pytest.mark.parametrize(("kind", "raw", "value", "wire"), GOLDEN)
def test_each_type_is_decoded_from_bytes_and_encoded_as_json(kind: str, raw: str, value: Value, wire: Any) -> None:
    primitive = parse_primitive(kind)
    assert decode(primitive, bytes.fromhex(raw)) == value
    assert to_wire(primitive, value) == wire
    assert from_wire(primitive, wire, "filter") == value


def test_bounds_from_before_a_type_promotion_are_decoded() -> None:
    assert decode(parse_primitive("long"), bytes.fromhex("2A000000")) == 42
    assert decode(parse_primitive("double"), bytes.fromhex("0000C03F")) == 1.5


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("int", "2A"),
        ("date", "0000000000000000"),
        ("timestamp", "00000000"),
        ("string", "FF"),
        ("uuid", "00"),
        ("variant", "0C"),
    ],
)
def test_bytes_that_are_not_a_value_of_the_type_are_ignored(kind: str, raw: str) -> None:
    assert decode(parse_primitive(kind), bytes.fromhex(raw)) is None


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        ("date", 13852, 13852),
        ("timestamptz", 1196676930123456, 1196676930123456),
        ("timestamptz", "2007-12-03T12:15:30.123456+02:00", 1196676930123456),
        ("timestamptz", "2007-12-03T10:15:30Z", 1196676930000000),
        ("timestamp", "2007-12-03T10:15", 1196676900000000),
        ("double", 5, 5.0),
        ("long", 5.0, 5),
        ("long", "5", 5),
        ("double", "2.5", 2.5),
        ("double", "-Infinity", -math.inf),
        ("float", "Infinity", math.inf),
        ("float", 3.5e38, 3.5e38),
        ("decimal(9,2)", "1.005", Fraction(201, 2)),
        ("decimal(9,2)", 1.5, 150),
        ("int", 3_000_000_000, 3_000_000_000),
    ],
)
def test_literals_are_accepted_in_the_forms_that_clients_send(kind: str, given: Any, value: Value) -> None:
    assert from_wire(parse_primitive(kind), given, "filter") == value


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        ("boolean", 1),
        ("int", True),
        ("int", "five"),
        ("long", 1.5),
        ("double", "1.5.2"),
        ("double", "inf"),
        ("double", "NaN"),
        ("decimal(9,2)", "NaN"),
        ("decimal(9,2)", "1/3"),
        ("string", 5),
        ("uuid", "eb26bdb1a1d84aa6990eda940875492c"),
        ("date", "2007-13-03"),
        ("date", "yesterday"),
        ("time", "24:00:00"),
        ("timestamp", "2007-12-03T10:15:30+00:00"),
        ("timestamptz", "2007-12-03T10:15:30"),
        ("fixed[3]", "7879"),
        ("binary", "7"),
        ("binary", "78 79"),
        ("variant", 5),
        ("string", None),
        ("date", None),
        ("date", []),
    ],
)
def test_a_literal_that_is_not_a_value_of_the_type_is_refused(kind: str, given: Any) -> None:
    with pytest.raises(InvalidInput, match="filter"):
        from_wire(parse_primitive(kind), given, "filter")


# A negative scale can be decoded, because files contain it, but Java loads no schema with one.
@pytest.mark.parametrize(("kind", "value"), [(kind, wire) for kind, _, _, wire in GOLDEN if ",-" not in kind])
def test_column_defaults_are_accepted_in_the_form_of_their_type(kind: str, value: Any) -> None:
    fields = [{"id": 1, "name": "new", "required": False, "type": kind, "initial-default": value}]
    require_schema({"type": "struct", "fields": fields}, format_version=3)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", 5),
        ("date", 13852),
        ("timestamptz", 1196676930123456),
        ("decimal(9,2)", 1.5),
        ("decimal(9,2)", "1.005"),
        ("int", "5"),
        ("double", "1.5"),
        ("double", "Infinity"),
        ("uuid", "no"),
        ("variant", "{}"),
    ],
)
def test_a_default_in_another_form_is_refused(kind: str, value: Any) -> None:
    fields = [{"id": 1, "name": "new", "required": False, "type": kind, "write-default": value}]
    with pytest.raises(InvalidInput, match=r"schema\.fields\.write-default"):
        require_schema({"type": "struct", "fields": fields}, format_version=3)


def test_a_literal_is_rounded_to_the_float_that_files_contain() -> None:
    kind = parse_primitive("float")
    in_file = decode(kind, struct.pack("<f", 0.1))
    assert from_wire(kind, 0.1, "filter") == in_file != 0.1
    assert from_wire(parse_primitive("double"), 0.1, "filter") == 0.1


def test_zero_keeps_its_sign_on_the_wire() -> None:
    for kind in map(parse_primitive, ("float", "double")):
        for given in (-0.0, "-0.0"):
            assert msgspec.json.encode(to_wire(kind, from_wire(kind, given, "filter"))) == b"-0.0"


def test_infinity_is_a_json_number_and_nan_is_refused() -> None:
    for kind in map(parse_primitive, ("float", "double")):
        for value in (math.inf, -math.inf):
            assert json.loads(msgspec.json.encode(to_wire(kind, value))) == value
        with pytest.raises(Unsupported, match="plan the scan in the client"):
            to_wire(kind, math.nan)


def test_a_literal_between_two_values_is_written_unchanged() -> None:
    kind = parse_primitive("decimal(9,2)")
    assert to_wire(kind, from_wire(kind, "1.005", "filter")) == "1.005"
    assert to_wire(kind, from_wire(kind, "-1e-999", "filter")) == f"-0.{'0' * 998}1"
