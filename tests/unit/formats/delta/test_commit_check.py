"""Staged commits: which may become a version, and which rule the others break."""

from typing import Any

import pytest
from msgspec.structs import replace

from moorage.core.errors import InvalidInput
from moorage.core.versions import VersionKind
from moorage.formats.delta.actions import read_commit
from moorage.formats.delta.commit_check import (
    MAX_AHEAD_MS,
    CommitContext,
    Proposal,
    check_commit,
    check_first_commit,
    require_fields,
    version_kind,
)
from moorage.formats.delta.paths import path_check_for
from tests.unit.formats.delta import commits as make

NOW = make.T0 + 1_000_000
NAME = "00000000000000000004.b5083473-fb27-4411-89b5-5d788a51fadc.json"
CONTEXT = CommitContext(head_timestamp_ms=make.T0 - 1, now_ms=NOW, location=make.LOCATION)


def proposal(data: bytes = b"x", **changes: Any) -> Proposal:
    plain = Proposal(version=4, timestamp_ms=make.T0, file_name=NAME, file_size=len(data), file_modified_ms=make.T0 + 1)
    return replace(plain, **changes)


def check(*lines: dict[str, Any], context: CommitContext = CONTEXT, **changes: Any) -> None:
    data = make.file_of(*lines)
    check_commit(data, proposal(data, **changes), context)


def refusal(*lines: dict[str, Any], context: CommitContext = CONTEXT, **changes: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        check(*lines, context=context, **changes)
    return caught.value


def test_a_commit_as_spark_writes_it_is_accepted() -> None:
    check(make.commit_info(), make.add(), make.remove("b"), make.high_water_mark(1))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"version": 0}, "version", id="55-version-0"),
        pytest.param({"version": -1}, "version", id="55-version-negative"),
        pytest.param({"timestamp_ms": 0}, "timestamp", id="56-timestamp-0"),
        pytest.param({"timestamp_ms": -5}, "timestamp", id="56-timestamp-negative"),
        pytest.param({"file_name": ""}, "file_name", id="57-no-file-name"),
        pytest.param({"file_name": f"../{NAME}"}, "file_name", id="58-parent-folder"),
        pytest.param({"file_name": f"a/{NAME}"}, "file_name", id="58-slash"),
        pytest.param({"file_name": f"a\\{NAME}"}, "file_name", id="58-backslash"),
        pytest.param({"file_name": "..json"}, "file_name", id="58-dots"),
        pytest.param({"file_name": "."}, "file_name", id="58-dot"),
        pytest.param({"file_name": ".."}, "file_name", id="58-dot-dot"),
        pytest.param({"file_name": "%2e%2e%2fx.json"}, "file_name", id="58-encoded"),
        pytest.param({"file_name": "a b.json"}, "file_name", id="58-space"),
        pytest.param({"file_name": "a.json\n"}, "file_name", id="58-newline"),
        pytest.param({"file_name": "a.parquet"}, "file_name", id="58-no-json"),
        pytest.param({"file_name": ".json"}, "file_name", id="58-no-name"),
        pytest.param({"file_name": "a" * 251 + ".json"}, "file_name", id="58-too-long"),
        pytest.param({"file_name": "0" * 19 + "5.uuid.json"}, "file_name", id="58-names-another-version"),
        pytest.param({"file_size": 0}, "file_size", id="59-size-0"),
        pytest.param({"file_size": -1}, "file_size", id="59-size-negative"),
        pytest.param({"file_modified_ms": 0}, "file_modification_timestamp", id="60-modified-0"),
    ],
)
def test_the_error_for_a_wrong_field_of_a_proposal_names_it(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        require_fields(proposal(**changes))
    assert caught.value.field == field


@pytest.mark.parametrize(
    "name",
    [NAME, "v.uuid1.json", "00000000-0000-0000-0000-00000000002a.json", "0" * 19 + "4.json", "1" * 32 + ".json"],
)
def test_a_file_name_may_be_any_that_does_not_name_another_version(name: str) -> None:
    require_fields(proposal(file_name=name))


def test_66_a_file_of_another_size_is_refused() -> None:
    refused = refusal(make.commit_info(), file_size=3)
    assert refused.field == "file_size"
    assert "the request states 3" in refused.message


@pytest.mark.parametrize(
    ("lines", "field"),
    [
        ([make.add()], "commitInfo"),
        ([make.add(), make.commit_info()], "commitInfo"),
        ([], "commitInfo"),
        ([make.commit_info(timestamp=None)], "commitInfo.inCommitTimestamp"),
        ([make.commit_info(timestamp=make.T0 + 1)], "timestamp"),
    ],
    ids=["no-commit-info", "commit-info-comes-second", "empty-file", "no-timestamp", "another-timestamp"],
)
def test_the_first_line_must_carry_the_timestamp_of_the_request(lines: list[dict[str, Any]], field: str) -> None:
    assert refusal(*lines).field == field


@pytest.mark.parametrize("head", [make.T0, make.T0 + 1])
def test_67_timestamps_must_increase(head: int) -> None:
    assert refusal(make.commit_info(), context=replace(CONTEXT, head_timestamp_ms=head)).field == "timestamp"


def test_a_timestamp_may_be_at_most_a_day_ahead() -> None:
    check(make.commit_info(), context=replace(CONTEXT, now_ms=make.T0 - MAX_AHEAD_MS))
    late = replace(CONTEXT, now_ms=make.T0 - MAX_AHEAD_MS - 1)
    assert "24 hours" in refusal(make.commit_info(), context=late).message


def test_paths_and_timestamp_of_the_first_commit_are_checked() -> None:
    inside = path_check_for(make.LOCATION)
    ctas = make.first_commit(make.add())
    assert check_first_commit(ctas, now_ms=NOW, inside=inside).summary.adds == 1
    with pytest.raises(InvalidInput, match="24 hours"):
        check_first_commit(ctas, now_ms=make.T0 - MAX_AHEAD_MS - 1, inside=inside)
    with pytest.raises(InvalidInput, match="is outside the table"):
        check_first_commit(make.first_commit(make.add("s3://elsewhere/a")), now_ms=NOW, inside=inside)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (make.add("../other/a"), "add.path"),
        (make.add("s3://elsewhere/a"), "add.path"),
        (make.remove("_delta_log/00000000000000000001.json"), "remove.path"),
        (make.cdc("%2e%2e/a"), "cdc.path"),
        (make.add(deletionVector=make.vector("p", "s3://elsewhere/a.bin")), "deletionVector.path"),
        (make.remove(deletionVector=make.vector("p", "s3://elsewhere/a.bin")), "deletionVector.path"),
        (make.add(deletionVector=make.vector("u", "../x^-aqEH.-t@S}K{vb[*k^")), "deletionVector.path"),
        (make.add(deletionVector=make.vector("u", "/^-aqEH.-t@S}K{vb[*k^")), "deletionVector.path"),
    ],
)
def test_every_path_must_be_inside_the_table(line: dict[str, Any], field: str) -> None:
    refused = refusal(make.commit_info(), line)
    assert refused.field == field
    assert "shallow clone" in refused.message


@pytest.mark.parametrize(
    "vector",
    [
        make.vector("u", "^-aqEH.-t@S}K{vb[*k^"),
        make.vector("u", "compact-7/x^-aqEH.-t@S}K{vb[*k^"),
        make.vector("p", f"{make.LOCATION}/x.bin"),
        make.vector("i", "../not-a-path"),
    ],
)
def test_a_deletion_vector_inside_the_table_is_accepted(vector: dict[str, Any]) -> None:
    check(make.commit_info(), make.add(deletionVector=vector))


MAINTENANCE = [
    "OPTIMIZE",
    "OPTIMIZE CHECKPOINT",
    "VACUUM START",
    "VACUUM END",
    "REORG",
    "REORG TABLE UPGRADE UNIFORM",
    "DOMAIN METADATA CLEANUP",
    " optimize",
]


@pytest.mark.parametrize("operation", MAINTENANCE)
def test_maintenance_is_refused_to_clients_and_allowed_to_upkeep(operation: str) -> None:
    line = make.commit_info(operation=operation)
    refused = refusal(line)
    assert refused.field == "commitInfo.operation"
    assert "maintenance" in refused.message
    check(line, context=replace(CONTEXT, upkeep=True))


@pytest.mark.parametrize(
    "operation",
    ["WRITE", "MERGE", "RESTORE", "COMPUTE STATS", "ROW TRACKING BACKFILL", "OPTIMIZED WRITE", "Manual Update"],
)
def test_an_operation_that_is_not_maintenance_is_accepted(operation: str) -> None:
    check(make.commit_info(operation=operation))


def test_a_commit_without_an_operation_is_accepted() -> None:
    check({"commitInfo": {"inCommitTimestamp": make.T0}})


DV = make.vector()
NO_DATA_CHANGE = {"dataChange": False}


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([make.commit_info(), make.add()], VersionKind.APPEND),
        ([make.commit_info(isBlindAppend=None), make.add()], VersionKind.APPEND),
        ([make.commit_info(), make.metadata(), make.add()], VersionKind.APPEND),
        ([make.commit_info(isBlindAppend=False), make.add()], VersionKind.CHANGE),
        ([make.commit_info(), make.remove()], VersionKind.CHANGE),
        ([make.commit_info(), make.remove("a"), make.add("b")], VersionKind.CHANGE),
        ([make.commit_info(), make.add(deletionVector=DV)], VersionKind.CHANGE),
        ([make.commit_info(), make.cdc("_change_data/a")], VersionKind.CHANGE),
        (
            [make.commit_info(), make.remove("a", **NO_DATA_CHANGE), make.add("b", **NO_DATA_CHANGE)],
            VersionKind.REWRITE,
        ),
        ([make.commit_info(), make.remove("a", **NO_DATA_CHANGE), make.add("b")], VersionKind.CHANGE),
        ([make.commit_info(), make.add("a", **NO_DATA_CHANGE)], VersionKind.REWRITE),
        ([make.commit_info(), make.metadata()], VersionKind.METADATA),
        ([make.commit_info(), make.high_water_mark(3)], VersionKind.METADATA),
        ([make.commit_info()], VersionKind.METADATA),
    ],
)
def test_the_kind_of_a_version_depends_on_what_it_does_to_the_rows(
    lines: list[dict[str, Any]], kind: VersionKind
) -> None:
    commit = read_commit(make.file_of(*lines))
    assert version_kind(commit.commit_info, commit.summary) is kind
