"""The capabilities header, and the format that it leads to."""

from __future__ import annotations

import pytest

from moorage.core.errors import InvalidInput, Unsupported
from moorage.formats.sharing.capabilities import (
    Capabilities,
    choose_format,
    parse_capabilities,
    response_capabilities,
)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, Capabilities()),
        ("", Capabilities()),
        ("responseformat=delta", Capabilities(formats=("delta",))),
        (" ResponseFormat = DELTA , Parquet ; x=y;;", Capabilities(formats=("parquet", "delta"))),
        ("readerfeatures=A,b", Capabilities(features=frozenset({"a", "b"}))),
        ("includeEndStreamAction=TRUE", Capabilities(end_stream=True)),
        ("includeendstreamaction=false", Capabilities()),
        ("responseformat=future,delta", Capabilities(formats=("delta",))),
        ("responseformat=", Capabilities()),
    ],
)
def test_a_header_is_parsed_in_any_letter_case(header: str | None, expected: Capabilities) -> None:
    assert parse_capabilities(header) == expected


def test_a_client_of_an_unknown_format_is_refused() -> None:
    with pytest.raises(InvalidInput, match="avro"):
        parse_capabilities("responseformat=avro")


@pytest.mark.parametrize(
    ("header", "needed", "expected"),
    [
        ("", set(), "parquet"),
        ("responseformat=delta", set(), "delta"),
        ("responseformat=delta,parquet", set(), "parquet"),
        ("responseformat=delta,parquet;readerfeatures=deletionvectors", {"deletionVectors"}, "delta"),
        ("responseformat=delta;readerfeatures=deletionvectors,x", {"deletionVectors"}, "delta"),
        ("", {"deletionVectors"}, None),
        ("readerfeatures=deletionvectors", {"deletionVectors"}, None),
        ("responseformat=delta", {"deletionVectors"}, None),
        ("responseformat=delta;readerfeatures=deletionvectors", {"deletionVectors", "columnMapping"}, None),
    ],
)
def test_a_client_gets_the_simplest_format_that_it_can_read(
    header: str, needed: set[str], expected: str | None
) -> None:
    if expected is None:
        with pytest.raises(Unsupported, match=r"columnMapping|deletionVectors"):
            choose_format(parse_capabilities(header), needed)
    else:
        assert choose_format(parse_capabilities(header), needed) == expected


def test_only_the_delta_format_has_the_word_delta_in_its_header() -> None:
    assert "delta" not in response_capabilities("parquet", end_stream=True)
    assert response_capabilities("delta", end_stream=False) == "responseformat=delta"
