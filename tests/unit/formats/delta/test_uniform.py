"""The uniform block may be omitted, but a wrong one is refused."""

from typing import Any

import pytest
from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.formats.delta.paths import path_check_for
from moorage.formats.delta.uniform import IcebergBlock, is_iceberg_enabled, require_uniform, to_millis
from tests.unit.formats.delta.commits import LOCATION

ON = {"delta.universalFormat.enabledFormats": "iceberg"}
METADATA_LOCATION = f"{LOCATION}/metadata/00042-x.metadata.json"
BLOCK = IcebergBlock(
    metadata_location=METADATA_LOCATION,
    converted_delta_version=42,
    converted_delta_timestamp="2026-02-09T17:00:00.000000Z",
)


def check(block: IcebergBlock | None, version: int = 42, configuration: dict[str, str] = ON) -> IcebergBlock:
    return require_uniform(block, version=version, configuration=configuration, inside=path_check_for(LOCATION))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="123"),
        pytest.param({"base_converted_delta_version": 41}, id="123-with-a-base"),
        pytest.param({"converted_delta_timestamp": "2026-02-09T17:00:00.123456789Z"}, id="128-nanoseconds"),
        pytest.param({"converted_delta_timestamp": "2025-01-04T03:13:11.423"}, id="128-as-kernel-sends-it"),
        pytest.param({"converted_delta_timestamp": "2025-01-04T03:13:11Z"}, id="128-whole-seconds-as-java-prints-them"),
        pytest.param({"converted_delta_timestamp": 1700000000000}, id="128-milliseconds-of-the-delta-api"),
    ],
)
def test_a_valid_block_is_kept_unchanged(changes: dict[str, Any]) -> None:
    block = replace(BLOCK, **changes)
    assert check(block) is block


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"metadata_location": None}, "metadata_location", id="118-no-location"),
        pytest.param({"metadata_location": ""}, "metadata_location", id="118-empty-location"),
        pytest.param({"converted_delta_version": None}, "converted_delta_version", id="118-no-version"),
        pytest.param({"converted_delta_timestamp": None}, "converted_delta_timestamp", id="118-no-timestamp"),
        pytest.param({"converted_delta_version": 41}, "converted_delta_version", id="119-other-version"),
        pytest.param({"metadata_location": "s3://lake/other/m.json"}, "metadata_location", id="120-outside"),
        pytest.param({"metadata_location": f"{LOCATION}2/m.json"}, "metadata_location", id="120-beside"),
        pytest.param({"metadata_location": f"{LOCATION}/../m.json"}, "metadata_location", id="120-parent-folder"),
        pytest.param({"metadata_location": "metadata/m.json"}, "metadata_location", id="120-relative"),
        pytest.param({"metadata_location": METADATA_LOCATION + "x" * 65536}, "metadata_location", id="106-too-long"),
        pytest.param({"converted_delta_timestamp": "yesterday"}, "converted_delta_timestamp", id="128-no-time"),
        pytest.param({"converted_delta_timestamp": "2026-02-09"}, "converted_delta_timestamp", id="128-a-day"),
        pytest.param({"converted_delta_timestamp": -1}, "converted_delta_timestamp", id="128-negative"),
        pytest.param({"base_converted_delta_version": 42}, "base_converted_delta_version", id="base-not-earlier"),
        pytest.param({"base_converted_delta_version": -1}, "base_converted_delta_version", id="base-negative"),
    ],
)
def test_the_error_for_a_wrong_block_names_its_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(replace(BLOCK, **changes))
    assert caught.value.field == f"uniform.iceberg.{field}"


def test_117_uniform_without_iceberg_is_refused() -> None:
    with pytest.raises(InvalidInput, match="uniform requires iceberg"):
        check(None)


@pytest.mark.parametrize("formats", [None, "", "hudi"], ids=["126-off", "124-turned-off", "126-another-format"])
def test_a_block_requires_the_table_property(formats: str | None) -> None:
    configuration = {} if formats is None else {"delta.universalFormat.enabledFormats": formats}
    with pytest.raises(InvalidInput, match="enabledFormats"):
        check(BLOCK, configuration=configuration)


def test_127_iceberg_is_recognised_among_other_formats() -> None:
    assert is_iceberg_enabled({"delta.universalFormat.enabledFormats": "hudi, iceberg"})
    assert not is_iceberg_enabled({"delta.universalFormat.enabledFormats": "icebergs"})


@pytest.mark.parametrize("version", [0, 1])
def test_45_at_creation_the_next_version_may_be_converted_already(version: int) -> None:
    assert check(replace(BLOCK, converted_delta_version=version), version=0).converted_delta_version == version


@pytest.mark.parametrize(
    "changes",
    [{"converted_delta_version": 2}, {"converted_delta_version": 1, "base_converted_delta_version": 0}],
    ids=["45-other-version", "45-with-a-base"],
)
def test_45_at_creation_a_later_version_or_a_base_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="converted_delta_version must be"):
        check(replace(BLOCK, **changes), version=0)


@pytest.mark.parametrize(
    "time",
    [
        1770656400123,
        "2026-02-09T17:00:00.123000Z",
        "2026-02-09T17:00:00.123999999Z",
        "2026-02-09T18:00:00.123+01:00",
        "2026-02-09T17:00:00.123",
    ],
)
def test_a_timestamp_of_either_form_is_converted_to_milliseconds(time: str | int) -> None:
    assert to_millis(time) == 1770656400123
