"""The capabilities header of Delta Sharing: what a client understands, and in which format it is answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

from moorage.core.errors import InvalidInput, Unsupported

HEADER: Final = "delta-sharing-capabilities"

ResponseFormat: TypeAlias = Literal["parquet", "delta"]
FORMATS: Final[tuple[ResponseFormat, ...]] = ("parquet", "delta")


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a client states about itself. All names are lower-case."""

    formats: tuple[ResponseFormat, ...] = ("parquet",)
    features: frozenset[str] = frozenset()
    end_stream: bool = False
    """Whether the client asks for an endStreamAction as the last line."""


NONE: Final = Capabilities()


def parse_capabilities(header: str | None) -> Capabilities:
    """Parse `key=value,value;key=value`. Unknown keys are ignored, and letter case does not matter."""
    if not header:
        return NONE
    stated: dict[str, tuple[str, ...]] = {}
    for capability in header.lower().split(";"):
        key, _, values = capability.partition("=")
        stated[key.strip()] = tuple(value.strip() for value in values.split(",") if value.strip())
    formats = NONE.formats
    if stated.get("responseformat"):
        formats = tuple(known for known in FORMATS if known in stated["responseformat"])
        if not formats:
            raise InvalidInput(
                f"responseformat must be parquet, delta or both, not {','.join(stated['responseformat'])}",
                field=HEADER,
            )
    return Capabilities(
        formats=formats,
        features=frozenset(stated.get("readerfeatures", ())),
        end_stream=stated.get("includeendstreamaction") == ("true",),
    )


def choose_format(capabilities: Capabilities, needed: Iterable[str]) -> ResponseFormat:
    """Choose the format of a response about a table that needs these reader features.

    A table that needs none is answered in parquet format to every client that accepts it. Raises Unsupported if the
    client cannot read the table.
    """
    features = sorted(needed)
    if "parquet" in capabilities.formats and not features:
        return "parquet"
    if "delta" not in capabilities.formats:
        raise Unsupported(
            f"the table uses {', '.join(features)}, which the parquet format cannot express; use a client that sends "
            f"'{HEADER}: responseformat=delta;readerfeatures={','.join(feature.lower() for feature in features)}'"
        )
    missing = [feature for feature in features if feature.lower() not in capabilities.features]
    if missing:
        raise Unsupported(
            f"the table uses {', '.join(missing)}, which the client does not list in readerfeatures; "
            "use a client that supports it"
        )
    return "delta"


def response_capabilities(chosen: ResponseFormat, *, end_stream: bool) -> str:
    """The capabilities header of a response. Clients search it for the word delta, so it contains nothing else."""
    return f"responseformat={chosen};includeendstreamaction=true" if end_stream else f"responseformat={chosen}"
