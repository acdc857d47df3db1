"""The `uniform.iceberg` block of a commit: the location of Iceberg metadata that the client wrote.

The block is optional. Without it, the catalog writes the Iceberg metadata itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from moorage.core.errors import InvalidInput
from moorage.formats.delta.paths import Inside

ENABLED_FORMATS: Final = "delta.universalFormat.enabledFormats"
LONGEST_LOCATION: Final = 65535
LONGEST_TIMESTAMP: Final = 35
"""The length with nine fractional digits and an offset. The specification's own form has 27 characters."""


class IcebergBlock(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The location of the Iceberg metadata of a Delta version."""

    metadata_location: str | None = None
    converted_delta_version: int | None = None
    converted_delta_timestamp: str | int | None = None
    """ISO 8601 in Unity's own API, milliseconds in `/delta/v1`; stored as sent."""
    base_converted_delta_version: int | None = None


def is_iceberg_enabled(configuration: Mapping[str, str]) -> bool:
    """Whether the table's properties enable Iceberg metadata, alone or with other formats."""
    formats = configuration.get(ENABLED_FORMATS, "").split(",")
    return "iceberg" in (name.strip().lower() for name in formats)


def require_uniform(
    block: IcebergBlock | None, *, version: int, configuration: Mapping[str, str], inside: Inside
) -> IcebergBlock:
    """Check the block of a commit of this version. `configuration` is the one after the commit.

    Version 0 is the creation of the table. In this case the client may already have converted the next version.
    """
    if block is None:
        raise InvalidInput("uniform requires iceberg", field="uniform.iceberg")
    if not is_iceberg_enabled(configuration):
        raise InvalidInput(f"uniform.iceberg requires iceberg in {ENABLED_FORMATS}", field="uniform.iceberg")
    _require_location(block.metadata_location, inside)
    _require_versions(block, version)
    _require_time(block.converted_delta_timestamp)
    return block


def _require_location(location: str | None, inside: Inside) -> None:
    field = "uniform.iceberg.metadata_location"
    if not location:
        raise InvalidInput(f"{field} is required", field=field)
    if len(location) > LONGEST_LOCATION:
        raise InvalidInput(f"{field} has more than {LONGEST_LOCATION} characters", field=field)
    if not (location.startswith("/") or ":/" in location) or not inside(location):
        raise InvalidInput(f"{field} must be inside the table", field=field)


def _require_versions(block: IcebergBlock, version: int) -> None:
    field = "uniform.iceberg.converted_delta_version"
    converted, base_version = block.converted_delta_version, block.base_converted_delta_version
    if converted is None:
        raise InvalidInput(f"{field} is required", field=field)
    allowed = (0, 1) if version == 0 else (version,)
    if converted not in allowed:
        expected = " or ".join(str(one) for one in allowed)
        raise InvalidInput(f"{field} must be {expected}, got {converted}", field=field)
    if base_version is not None and (version == 0 or not 0 <= base_version < converted):
        field = "uniform.iceberg.base_converted_delta_version"
        raise InvalidInput(f"{field} must be an earlier version, got {base_version}", field=field)


def _require_time(time: str | int | None) -> None:
    field = "uniform.iceberg.converted_delta_timestamp"
    if time is None or time == "":
        raise InvalidInput(f"{field} is required", field=field)
    try:
        is_time = time > 0 if isinstance(time, int) else _is_iso(time)
    except ValueError:
        is_time = False
    if not is_time:
        raise InvalidInput(f"{field} {time!r} is neither ISO 8601 nor a positive number of milliseconds", field=field)


def _is_iso(text: str) -> bool:
    return len(text) <= LONGEST_TIMESTAMP and "T" in text and datetime.fromisoformat(text) is not None


def to_millis(time: str | int) -> int:
    """A timestamp of either form in milliseconds. A timestamp without a zone is in UTC."""
    if isinstance(time, int):
        return time
    parsed = datetime.fromisoformat(time)
    aware = parsed if parsed.tzinfo is not None else parsed.replace(tzinfo=UTC)
    return (aware - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
